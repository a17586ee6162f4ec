/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SWITCHMARK_SOCKET_CLEAR_H
#define SWITCHMARK_SOCKET_CLEAR_H

/* Removes a socket at a path that nobody listens at any more. What else is there stays. 0 where
 * there is nothing now, or an errno. */
int socket_clear(const char *path);

#endif
