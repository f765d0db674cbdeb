//! An instance of a service, in the JSON of Curator's `x-discovery`.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value as Json};

use crate::{Error, Result, path};

/// The lifetime of an instance's znode.
///
/// ```
/// use zebu_recipes::{ServiceInstance, ServiceType};
///
/// assert_eq!(ServiceInstance::new("web", "10.0.0.1").kind, ServiceType::Dynamic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceType {
    /// Until the session ends.
    Dynamic,
    /// Until the instance is unregistered; it stays if the program dies.
    Static,
    /// Like [`ServiceType::Static`]; Curator treats both alike.
    Permanent,
    /// Until the session ends; the znode is sequential.
    DynamicSequential,
}

impl ServiceType {
    fn word(self) -> &'static str {
        match self {
            Self::Dynamic => "DYNAMIC",
            Self::Static => "STATIC",
            Self::Permanent => "PERMANENT",
            Self::DynamicSequential => "DYNAMIC_SEQUENTIAL",
        }
    }

    fn read(word: &str) -> Option<Self> {
        [Self::Dynamic, Self::Static, Self::Permanent, Self::DynamicSequential]
            .into_iter()
            .find(|kind| kind.word() == word)
    }
}

/// A template for an instance's URI: a text with field names in braces.
///
/// The fields are `scheme` (`https` with a port for TLS, otherwise `http`), `name`, `id`,
/// `address`, `port`, `ssl-port`, `registration-time-utc` and `service-type`; `{[}` and `{]}` are
/// braces. Unknown fields are left out.
///
/// ```
/// use zebu_recipes::{ServiceInstance, UriSpec};
///
/// let mut web = ServiceInstance::new("web", "10.0.0.1");
/// web.port = Some(8080);
/// web.uri_spec = Some(UriSpec::parse("{scheme}://{address}:{port}/{name}")?);
/// assert_eq!(web.uri().as_deref(), Some("http://10.0.0.1:8080/web"));
/// # Ok::<(), zebu_recipes::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UriSpec {
    /// The parts of the template. `true` marks the name of a field.
    parts: Vec<(String, bool)>,
}

impl UriSpec {
    /// Reads a text with the names of fields in braces.
    ///
    /// # Errors
    /// [`Error::Name`] for braces that do not match.
    ///
    /// ```
    /// assert!(zebu_recipes::UriSpec::parse("{scheme}://{address").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |reason| Error::Name { name: text.to_owned(), reason };
        let mut parts = Vec::new();
        let mut is_field = false;
        for piece in text.split_inclusive(['{', '}']) {
            let word = piece.trim_end_matches(['{', '}']);
            if !word.is_empty() {
                let word = if is_field { word.trim() } else { word };
                parts.push((word.to_owned(), is_field));
            }
            is_field = match piece.as_bytes().last() {
                Some(b'{') if is_field => return Err(refused("a brace is opened twice")),
                Some(b'}') if !is_field => return Err(refused("a brace is closed and not open")),
                Some(b'{') => true,
                Some(b'}') => false,
                _ => is_field,
            };
        }
        if is_field { Err(refused("a brace is not closed")) } else { Ok(Self { parts }) }
    }

    fn to_json(&self) -> Json {
        let part = |(value, is_field): &(String, bool)| {
            let fields = [("value", Json::from(value.as_str())), ("variable", (*is_field).into())];
            Json::Object(fields.map(|(name, value)| (name.to_owned(), value)).into_iter().collect())
        };
        let parts = self.parts.iter().map(part).collect();
        Json::Object(Map::from_iter([("parts".to_owned(), Json::Array(parts))]))
    }

    fn read(json: &Json) -> Option<Self> {
        let parts = json.get("parts")?.as_array()?;
        let part = |part: &Json| {
            Some((part.get("value")?.as_str()?.to_owned(), part.get("variable")?.as_bool()?))
        };
        Some(Self { parts: parts.iter().map(part).collect::<Option<_>>()? })
    }
}

/// An instance of a service.
///
/// ```
/// use zebu_recipes::ServiceInstance;
///
/// let mut web = ServiceInstance::new("web", "10.0.0.1");
/// web.port = Some(8080);
/// let read = ServiceInstance::from_json(&web.to_json()).expect("it is one");
/// assert_eq!(read, web);
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ServiceInstance {
    /// The service's name; also the name of a znode.
    pub name: String,
    /// Unique within the service; also the name of the znode.
    pub id: String,
    /// Its address.
    pub address: String,
    /// Its port.
    pub port: Option<u16>,
    /// Its port for TLS.
    pub ssl_port: Option<u16>,
    /// Additional data. Curator writes objects with the name of their class in `@class`; a text is
    /// a plain string.
    pub payload: Json,
    /// When it was created, in milliseconds since the Unix epoch.
    pub registered_ms: i64,
    /// The lifetime of its znode.
    pub kind: ServiceType,
    /// The template for its URI.
    pub uri_spec: Option<UriSpec>,
    /// Whether to use it. Curator writes this field only if configured to, and reads a missing one
    /// as true. This crate writes it only if it is false.
    pub enabled: bool,
}

impl ServiceInstance {
    /// An instance with a new id, made now.
    ///
    /// ```
    /// use zebu_recipes::ServiceInstance;
    ///
    /// let [one, two] = ["10.0.0.1", "10.0.0.2"].map(|host| ServiceInstance::new("web", host));
    /// assert_ne!(one.id, two.id);
    /// ```
    pub fn new(name: &str, address: &str) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            name: name.to_owned(),
            id: path::uuid(),
            address: address.to_owned(),
            port: None,
            ssl_port: None,
            payload: Json::Null,
            registered_ms: i64::try_from(now.as_millis()).unwrap_or(i64::MAX),
            kind: ServiceType::Dynamic,
            uri_spec: None,
            enabled: true,
        }
    }

    /// The JSON that Curator's `JsonInstanceSerializer` reads and writes.
    ///
    /// ```
    /// let json = zebu_recipes::ServiceInstance::new("web", "10.0.0.1").to_json();
    /// assert!(json.starts_with(br#"{"name":"web","id":""#));
    /// ```
    pub fn to_json(&self) -> Vec<u8> {
        let uri_spec = self.uri_spec.as_ref().map_or(Json::Null, UriSpec::to_json);
        let fields = [
            ("name", Json::from(self.name.as_str())),
            ("id", self.id.as_str().into()),
            ("address", self.address.as_str().into()),
            ("port", self.port.into()),
            ("sslPort", self.ssl_port.into()),
            ("payload", self.payload.clone()),
            ("registrationTimeUTC", self.registered_ms.into()),
            ("serviceType", self.kind.word().into()),
            ("uriSpec", uri_spec),
        ];
        // In Curator's order, which a map would not keep.
        let mut text = String::new();
        for (name, value) in fields {
            text.push_str(if text.is_empty() { "{" } else { "," });
            text.push_str(&format!("\"{name}\":{value}"));
        }
        text.push_str(if self.enabled { "}" } else { ",\"enabled\":false}" });
        text.into_bytes()
    }

    /// Parses that JSON; `None` if it is invalid. Unknown fields are ignored.
    ///
    /// ```
    /// use zebu_recipes::ServiceInstance;
    ///
    /// let json = br#"{"name":"web","id":"1","address":"10.0.0.1","port":80}"#;
    /// assert_eq!(ServiceInstance::from_json(json).expect("it is one").port, Some(80));
    /// assert!(ServiceInstance::from_json(b"web").is_none());
    /// ```
    pub fn from_json(json: &[u8]) -> Option<Self> {
        let json: Json = serde_json::from_slice(json).ok()?;
        let field = |name: &str| json.get(name).filter(|value| !value.is_null());
        let text = |name: &str| Some(field(name)?.as_str()?.to_owned());
        // `None` for an invalid port.
        let port = |name: &str| match field(name) {
            None => Some(None),
            Some(port) => Some(Some(u16::try_from(port.as_u64()?).ok()?)),
        };
        Some(Self {
            name: text("name")?,
            id: text("id")?,
            address: text("address").unwrap_or_default(),
            port: port("port")?,
            ssl_port: port("sslPort")?,
            payload: field("payload").cloned().unwrap_or(Json::Null),
            registered_ms: field("registrationTimeUTC").and_then(Json::as_i64).unwrap_or(0),
            kind: match field("serviceType") {
                None => ServiceType::Dynamic,
                Some(word) => ServiceType::read(word.as_str()?)?,
            },
            uri_spec: match field("uriSpec") {
                None => None,
                Some(spec) => Some(UriSpec::read(spec)?),
            },
            enabled: field("enabled").is_none_or(|enabled| enabled != &Json::Bool(false)),
        })
    }

    /// The URI that [`ServiceInstance::uri_spec`] makes of it; `None` without one.
    ///
    /// ```
    /// assert_eq!(zebu_recipes::ServiceInstance::new("web", "10.0.0.1").uri(), None);
    /// ```
    pub fn uri(&self) -> Option<String> {
        let port = |port: Option<u16>| port.map(|port| port.to_string()).unwrap_or_default();
        let part = |(word, is_field): &(String, bool)| match word.as_str() {
            word if !is_field => word.to_owned(),
            "scheme" if self.ssl_port.is_some() => "https".to_owned(),
            "scheme" => "http".to_owned(),
            "name" => self.name.clone(),
            "id" => self.id.clone(),
            "address" => self.address.clone(),
            "port" => port(self.port),
            "ssl-port" => port(self.ssl_port),
            "registration-time-utc" => self.registered_ms.to_string(),
            "service-type" => self.kind.word().to_lowercase(),
            "[" => "{".to_owned(),
            "]" => "}".to_owned(),
            _ => String::new(),
        };
        Some(self.uri_spec.as_ref()?.parts.iter().map(part).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by Curator's `JsonInstanceSerializer`, as it is and with `enabled`.
    const WEB: &str = r#"{"name":"web","id":"id-1","address":"10.0.0.1","port":8080,"sslPort":null,"payload":"hi","registrationTimeUTC":1325129459728,"serviceType":"DYNAMIC","uriSpec":{"parts":[{"value":"scheme","variable":true},{"value":"://","variable":false},{"value":"address","variable":true},{"value":":","variable":false},{"value":"port","variable":true}]}}"#;
    const TLS: &str = r#"{"name":"web","id":"id-2","address":"10.0.0.1","port":null,"sslPort":8443,"payload":{"@class":"M$P","a":"x","b":3},"registrationTimeUTC":7,"serviceType":"STATIC","uriSpec":null,"enabled":false}"#;
    const BARE: &str = r#"{"name":"web","id":"id-3","address":"h","port":null,"sslPort":null,"payload":null,"registrationTimeUTC":7,"serviceType":"DYNAMIC","uriSpec":null,"enabled":true}"#;
    const NUMBER: &str = r#"{"name":"web","id":"id-4","address":"h","port":null,"sslPort":null,"payload":["java.lang.Long",5],"registrationTimeUTC":7,"serviceType":"DYNAMIC","uriSpec":null}"#;

    fn read(json: &str) -> ServiceInstance {
        ServiceInstance::from_json(json.as_bytes()).expect(json)
    }

    /// Read, and written again, byte for byte.
    #[test]
    fn curators_json_is_read_and_written() {
        for json in [WEB, TLS, NUMBER] {
            assert_eq!(String::from_utf8(read(json).to_json()).unwrap(), json);
        }
        let web = read(WEB);
        assert_eq!((web.port, web.ssl_port, web.kind), (Some(8080), None, ServiceType::Dynamic));
        assert_eq!((web.payload.as_str(), web.registered_ms), (Some("hi"), 1_325_129_459_728));
        assert_eq!(web.uri().as_deref(), Some("http://10.0.0.1:8080"));
        assert_eq!(web.uri_spec, UriSpec::parse("{scheme}://{address}:{ port }").ok());
        let tls = read(TLS);
        assert_eq!((tls.kind, tls.enabled), (ServiceType::Static, false));
        assert_eq!(tls.payload["a"], "x");
        // The field `enabled` is omitted if it is true.
        let bare = read(BARE);
        assert!(bare.enabled && bare.payload.is_null());
        assert_eq!(bare.to_json(), BARE.replace(",\"enabled\":true", "").into_bytes());
    }

    #[test]
    fn what_is_no_instance_is_refused() {
        for json in [
            "",
            "[]",
            r#"{"name":"web"}"#,
            r#"{"name":"web","id":"1","port":65536}"#,
            r#"{"name":"web","id":"1","port":"80"}"#,
            r#"{"name":"web","id":"1","serviceType":"ODD"}"#,
            r#"{"name":"web","id":"1","uriSpec":{}}"#,
        ] {
            assert!(ServiceInstance::from_json(json.as_bytes()).is_none(), "{json}");
        }
    }

    #[test]
    fn every_field_of_a_uri() {
        let mut instance = read(TLS);
        let text = "{[}{scheme}{]} {name} {id} {address} {port} {ssl-port} {odd}{service-type} \
            {registration-time-utc}";
        instance.uri_spec = UriSpec::parse(text).ok();
        let expected = "{https} web id-2 10.0.0.1  8443 static 7";
        assert_eq!(instance.uri().as_deref(), Some(expected));
        for text in ["{", "}", "{a{b}", "a}", "{a"] {
            UriSpec::parse(text).unwrap_err();
        }
    }
}
