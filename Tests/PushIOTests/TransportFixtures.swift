/// Both ends of a connection on one loop, for the tests of loop, transport and TLS.
import Foundation
import PushCore
import PushIO

/// Records a transport's events, and consumes received bytes unless told not to.
final class RecordingDelegate: TransportDelegate {
  var openCount = 0
  var closeCount = 0
  var error: TransportError?
  var received: [UInt8] = []
  var consumes = true
  var echoes = false
  var onReceive: ((Transport) -> Void)?

  func transportDidOpen(_ transport: Transport) {
    openCount += 1
  }

  func transportDidReceive(_ transport: Transport) {
    if consumes { consume(transport) }
    onReceive?(transport)
  }

  func transportDidClose(_ transport: Transport, error: TransportError?) {
    closeCount += 1
    self.error = error
  }

  func consume(_ transport: Transport) {
    let bytes = copied(transport)
    transport.inbound.consume(bytes.count)
    received += bytes
    if echoes {
      transport.outbound.append(bytes.span)
      transport.setNeedsFlush()
    }
  }

  private func copied(_ transport: Transport) -> [UInt8] {
    transport.inbound.withBytes { bytes in
      var copy: [UInt8] = []
      copy.reserveCapacity(bytes.count)
      for index in bytes.indices { copy.append(bytes[index]) }
      return copy
    }
  }

  var text: String { String(decoding: received, as: UTF8.self) }
}

/// Accepts connections and adopts them, each with a delegate of its own.
final class AcceptingDelegate: ListenerDelegate {
  let loop: EventLoop
  let tls: TLSContext?
  var options = ConnectOptions()
  var configure: (RecordingDelegate) -> Void = { _ in }
  var transports: [Transport] = []
  var delegates: [RecordingDelegate] = []

  init(loop: EventLoop, tls: TLSContext? = nil) {
    self.loop = loop
    self.tls = tls
  }

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    let delegate = RecordingDelegate()
    configure(delegate)
    delegates.append(delegate)
    transports.append(
      Transport.adopt(loop: loop, fileDescriptor: fileDescriptor, tls: tls, options: options, delegate: delegate))
  }
}

extension EventLoop {
  /// Turns until `condition` holds; false where it does not within the time.
  func turn(upToMilliseconds limit: Int64 = 10_000, until condition: () -> Bool) -> Bool {
    // The loop's clock shows its last turn, which may be long ago.
    poll(maximumWaitMilliseconds: 0)
    let start = now.monotonic
    while !condition() {
      poll(maximumWaitMilliseconds: 20)
      flush()
      if now.monotonic.milliseconds(since: start) > limit { return condition() }
    }
    return true
  }

  /// Turns for a while.
  func turn(forMilliseconds time: Int64) {
    _ = turn(upToMilliseconds: time) { false }
  }
}

extension Transport {
  func write(_ text: String) {
    outbound.append(text)
    setNeedsFlush()
  }

  func write(_ bytes: ArraySlice<UInt8>) {
    outbound.append(Array(bytes).span)
    setNeedsFlush()
  }
}

/// Bytes without short repetitions.
func patternBytes(_ count: Int) -> [UInt8] {
  var state: UInt64 = 0x9E37_79B9_7F4A_7C15
  return (0..<count).map { _ in
    state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
    return UInt8(truncatingIfNeeded: state >> 33)
  }
}

/// A directory that is removed with its owner.
final class TemporaryDirectory {
  let path: String

  init() {
    path = NSTemporaryDirectory() + "/herald-\(UUID().uuidString)"
    try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
  }

  deinit {
    try? FileManager.default.removeItem(atPath: path)
  }

  func file(_ name: String) -> String { path + "/" + name }
}
