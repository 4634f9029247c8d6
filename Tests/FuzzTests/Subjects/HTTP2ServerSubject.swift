import PushCore
import PushIO

/// Bytes of a client for the simulator's session. The first byte is the size of the pieces in which they arrive (0: all at once).
final class HTTP2ServerSubject: FuzzSubject {
  private var answer = HTTP2HeaderList()

  init() {
    answer.append(.status, decimal: 200)
  }

  func run(_ bytes: [UInt8]) throws(FuzzFinding) {
    guard let first = bytes.first else { return }
    var settings = HTTP2ServerSettings(maximumStreams: 8)
    settings.reportsHeaders = true
    let session = HTTP2ServerSession(settings: settings)
    var out = ByteQueue()
    session.open(into: &out)
    var position = 1
    while position < bytes.count {
      let count = min(first == 0 ? bytes.count : Int(first), bytes.count - position)
      session.receive(bytes.span.extracting(position..<position + count), into: &out)
      position += count
      while let event = session.nextEvent() {
        switch event {
        case .request(let stream):
          for index in 0..<session.headerCount(of: stream) {
            session.withField(at: index, of: stream) { name, value in _ = name.count + value.count }
          }
          _ = session.withHeader(.path, of: stream) { $0.count }
          let kept = session.withBody(of: stream) { $0.count }
          try holds(kept <= settings.requestBodyLimit, "a body is bounded")
          _ = session.respond(
            stream, answer, body: [1, 2, 3], options: HTTP2ResponseOptions(), into: &out)
        case .headers(let stream): _ = session.withHeader(.path, of: stream) { $0.count }
        case .opened, .reset, .closed: break
        }
      }
      session.resume(into: &out)
      try holds(out.count <= 64 * bytes.count + 65_536, "answers do not outgrow what came: \(out.count)")
    }
    session.end(.aborted)
    while session.nextEvent() != nil {}
    try holds(session.streamsInFlight == 0 || session.isEnded, "the end ends every stream")
  }
}
