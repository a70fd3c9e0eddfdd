/* The connections: which of them rest, send a request, or take an answer, and how fast. Those that are too slow are ended; when
 * room for connections or bodies runs short, room is made by ending the slowest. */
#ifndef L3A_SERVE_PEERS_H
#define L3A_SERVE_PEERS_H

#include "serve/server.h"

enum peer_state { RESTING, SENDING_BODY, WORKED_ON, TAKING_ANSWER };
enum { PEER_ADDRESS = 46 };

/* Callbacks of libmicrohttpd. */
void peers_notice(void *server, struct MHD_Connection *connection, void **context, enum MHD_ConnectionNotificationCode what);
void *peers_request_line(void *server, const char *uri, struct MHD_Connection *connection);
/* Ends connections that are too slow. To be called every second, or more often. */
void peers_watch(struct server *server);

struct peer *peer_of(struct MHD_Connection *connection);
/* Whether the last request line has only bytes that belong there. version: where the version is that libmicrohttpd found. */
bool peer_line_is_clear(const struct peer *peer, const char *version);
/* Returns false if the connection was ended. */
bool peer_set(struct request *request, enum peer_state state);
/* What the client sends now is not read any more; but the connection stays open for a moment, so that the client reads the answer
 * instead of failing to write. */
void peer_let_go(struct request *request);
/* Whether the client of a request that is worked on has closed its connection. One that only will send no more looks the same. */
bool peer_has_left(const struct request *request);
/* Who asks. */
struct client *peer_client(struct request *request);
/* Sends an answer in the middle of a body, where libmicrohttpd takes none. */
void peer_answer(struct request *request);
/* The status of such an answer, once; 0: there was none. Writes the address of the client. */
unsigned peer_status(const struct request *request, char address[PEER_ADDRESS]);

/* Hands a connection to libmicrohttpd that somebody else has accepted. */
void peers_add(struct server *server, int socket, const struct sockaddr *address, socklen_t length);
/* Whether a request is on its way whose head is not complete, or may be. */
bool peers_ask(struct server *server);
/* Tells all clients that the server sends no more. What they still send is read, so that no connection is reset. */
void peers_part(struct server *server);
/* Whether everything that has come was read. */
bool peers_are_silent(struct server *server);

/* Bytes of a body have come. kept: in memory, for which all bodies together have a limit. */
enum room { ROOM, NO_ROOM, ENDED };
enum room body_count(struct request *request, size_t count, bool kept);
void body_discount(struct request *request);

#endif
