/* The version of the C client whose interface this is. */
#ifndef ZEBU_ZOOKEEPER_VERSION_H
#define ZEBU_ZOOKEEPER_VERSION_H

#define ZOO_VERSION "3.8.0"

#endif
