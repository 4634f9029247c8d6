import PushCore

@testable import PushIO

/// A content header with properties and tables, which a producer controls.
final class AMQPPropertiesSubject: FuzzSubject {
  private var metadata = MessageMetadata()

  init() {}

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    metadata.reset()
    AMQPPropertiesReader.read(bytes.span, into: &metadata)
    try holds(metadata.bytes.count <= 3 * bytes.count, "what is kept is part of what was sent")
    for range in [metadata.messageID, metadata.correlationID, metadata.traceparent, metadata.tracestate] {
      try holds(range.range.upperBound <= metadata.bytes.count, "a text lies within what is kept")
    }
    let headers = AMQPPropertiesReader.headers(bytes.span)
    try holds(headers.count <= bytes.count, "no more headers than bytes")
    try holds(AMQPPropertiesReader.deaths(bytes.span).count <= bytes.count, "no more deaths than bytes")
    guard AMQPTableReader.isShallow(bytes.span, at: 0, depthMaximum: 4),
      var table = AMQPTableReader(bytes.span, at: 0)
    else { return }
    var fields = 0
    while let (name, value) = table.next(bytes.span) {
      fields += 1
      try holds(name.range.upperBound <= table.endOffset, "a name lies within its table")
      if case .bytes(let range) = value {
        try holds(range.range.upperBound <= table.endOffset, "a text lies within its table")
      }
      try holds(fields <= bytes.count, "no more fields than bytes")
    }
  }
}
