"""Web sockets of a small server of our own: uvicorn's, for clients who mean no good.

uvicorn waits for nobody who sends messages, but it answers pings of a client that does not read, keeps pieces of a message without end,
and shows a traceback for text that is no UTF-8 or a handshake that it cannot read. Here each of these is the end of one connection.
"""

from __future__ import annotations

from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

NO_TEXT, TOO_LONG = 1007, 1009  # why a web socket is closed: RFC 6455, section 7.4.1
MOST_PIECES = 1_000  # of one message


def at_most(sockets: int) -> type[BoundedWebSocket]:
    """`ws` of a uvicorn.Config, for so many web sockets at once. How long a message may be is its ws_max_size."""
    return type("AtMost", (BoundedWebSocket,), {"most_sockets": sockets})


class BoundedWebSocket(WebSocketsSansIOProtocol):
    most_sockets: int

    def handle_connect(self, event: Any) -> None:
        """Those count as well that are closed on our side, and whose client does not answer that."""
        if not all(value.isascii() for _, value in event.headers.raw_items()):
            self.transport.close()  # websockets could not say what is wrong with it
            return
        if sum(isinstance(one, BoundedWebSocket) for one in self.connections) <= self.most_sockets:
            super().handle_connect(event)
            return
        self.handshake_initiated = self.handshake_complete = self.close_sent = True
        self.conn.send_response(self.conn.reject(503, "All web sockets are taken.\n"))
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()

    def pause_writing(self) -> None:
        """What the client does not read is not added to: it is not heard either."""
        super().pause_writing()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.read_paused:
            self.transport.resume_reading()

    def handle_cont(self, event: Any) -> None:
        if len(self.frames) >= MOST_PIECES:
            self._hang_up(TOO_LONG)
        else:
            super().handle_cont(event)

    def send_receive_event_to_app(self) -> None:
        if self.curr_msg_data_type == "text":
            try:
                b"".join(self.frames).decode()
            except UnicodeDecodeError:
                self._hang_up(NO_TEXT)
                return
        super().send_receive_event_to_app()

    def handle_parser_exception(self) -> None:
        if self.conn.close_sent is None:  # there was no handshake that could be read
            self.transport.close()
        else:
            super().handle_parser_exception()
            self.disconnected = True  # whoever is still answering is told that the client is gone

    def _hang_up(self, code: int) -> None:
        self.frames = []
        if not self.close_sent and self.conn.close_sent is None:
            self.conn.send_close(code)
            self.handle_parser_exception()
