/* The tensors in an object of TorchScript, and in the objects in its attributes. */
#ifndef L3A_TORCH_OBJECTS_H
#define L3A_TORCH_OBJECTS_H

#include "format/pickle.h"

/* The name is that of the attributes on the way to the tensor, with dots between them. It has no zero byte, and none behind it. */
typedef l3a_status (*torch_visit)(void *user, const char *name, size_t length, const struct pickle_tensor *tensor);

/* Visits them in the order of the file. Other attributes are skipped. */
l3a_status torch_objects(const struct pickle *pickle, uint32_t object, torch_visit visit, void *user);

#endif
