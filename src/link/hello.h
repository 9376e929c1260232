/* hello.h: reading an agent's HELLO, without I/O. */
#pragma once

#include "base/err.h"
#include "link/link.h"

/* 0 and *ret filled; ERR_PROTOCOL where a needed tag is missing or broken, or where broker and
 * agent share no version of the protocol. The texts come out as printable ASCII. */
int link_hello_parse(struct tlv_reader msg, struct link_hello *ret, struct err *err) MUST_CHECK;
