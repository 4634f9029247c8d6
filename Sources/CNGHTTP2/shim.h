// HTTP/2 framing and HPACK (Debian: libnghttp2-dev).
#ifndef HERALD_CNGHTTP2_H
#define HERALD_CNGHTTP2_H
#include <nghttp2/nghttp2.h>

// Fields of the frame union: Swift would copy the whole union for each.
static inline int32_t herald_frame_stream_id(const nghttp2_frame *frame) { return frame->hd.stream_id; }
static inline uint8_t herald_frame_type(const nghttp2_frame *frame) { return frame->hd.type; }
static inline uint8_t herald_frame_flags(const nghttp2_frame *frame) { return frame->hd.flags; }
static inline int herald_frame_is_request(const nghttp2_frame *frame) {
  return frame->headers.cat == NGHTTP2_HCAT_REQUEST;
}
static inline uint32_t herald_goaway_code(const nghttp2_frame *frame) { return frame->goaway.error_code; }
static inline int32_t herald_goaway_last_stream_id(const nghttp2_frame *frame) {
  return frame->goaway.last_stream_id;
}
static inline const uint8_t *herald_goaway_debug(const nghttp2_frame *frame) { return frame->goaway.opaque_data; }
static inline size_t herald_goaway_debug_length(const nghttp2_frame *frame) {
  return frame->goaway.opaque_data_len;
}
static inline const uint8_t *herald_ping_data(const nghttp2_frame *frame) { return frame->ping.opaque_data; }
#endif
