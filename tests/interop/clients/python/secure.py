"""TLS with a certificate of the client: `secure.py HOSTS TRUST_STORE KEY_STORE`. All passwords are `testpass`."""

from __future__ import annotations

import sys

import zebu
from zebu import exceptions

HOSTS, TRUST, KEY = sys.argv[1:]

tls = zebu.Tls(TRUST, "testpass", KEY, "testpass")
with zebu.Client(HOSTS, 10, tls=tls) as client:
    print(client.state, sorted(scheme for scheme, _ in client.who_am_i()))
    client.create("/of-a-certificate", acl=zebu.creator())
    print(client.get_acls("/of-a-certificate")[0][0].scheme)
try:
    zebu.Client(HOSTS, 10, connection_wait=1, tls=zebu.Tls(key_store=KEY, key_store_password="testpass", system_roots=True))
except exceptions.ZebuError as error:
    print(error.kind)
