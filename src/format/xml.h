/* XML, as far as annotations need it: elements with text. Attributes are passed over. A document type, and with it every
 * entity of one's own and everything external, is refused. The parser is expat; only this file knows. */
#ifndef L3A_XML_H
#define L3A_XML_H

#include "base/context.h"

/* Called at the end of each element. path: "annotation/object/name"; text: what stands in it after its last child, trimmed,
 * and cut after 255 bytes. Anything but L3A_OK ends the reading. */
typedef l3a_status xml_element(const char *path, const char *text, void *user);

/* name stands for the file in messages, which give line and column. */
l3a_status xml_read(l3a_context *context, const char *name, const char *bytes, size_t count, xml_element *each, void *user);

#endif
