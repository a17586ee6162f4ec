/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SWITCHMARK_SOCKET_CLEAR_H
#define SWITCHMARK_SOCKET_CLEAR_H

/* Removes a stale socket that has no listener. Other files at the path stay. Returns 0 if the path
 * is free now, or an errno. */
int socket_clear(const char *path);

#endif
