/* XML, as far as annotations need it: elements with text. Attributes are ignored. A document type is refused, and with it all
 * custom and external entities. The parser is expat, which only this file and xmp.c
 * use. */
#ifndef L3A_XML_H
#define L3A_XML_H

#include "base/context.h"

/* Called at the end of each element. path: "annotation/object/name"; text: the text after its last child, trimmed and cut to 255
 * bytes. Any result other than L3A_OK stops the parser. */
typedef l3a_status xml_element(const char *path, const char *text, void *user);

/* name is the file's name in error messages, which give the line and column. */
l3a_status xml_read(l3a_context *context, const char *name, const char *bytes, size_t count, xml_element *each, void *user);

#endif
