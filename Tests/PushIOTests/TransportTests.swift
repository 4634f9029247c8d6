import Foundation
import PushCore
import PushIO
import Testing

@Suite("Transport", .timeLimit(.minutes(5)))
struct TransportTests {
  private func connect(
    _ loop: EventLoop, _ endpoint: Endpoint, _ delegate: RecordingDelegate,
    _ change: (inout ConnectOptions) -> Void = { _ in }
  ) -> Transport {
    var options = ConnectOptions()
    change(&options)
    return Transport.connect(loop: loop, to: endpoint, tls: nil, options: options, delegate: delegate)
  }

  @Test func megabytesEchoInRandomChunks() throws {
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(loop: loop)
    acceptor.configure = { $0.echoes = true }
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    // Before the connection starts its timeout: under a sanitizer this takes seconds.
    let source = patternBytes(4 << 20)
    let delegate = RecordingDelegate()
    let transport = connect(loop, Endpoint(host: "127.0.0.1", port: listener.port), delegate)
    var written = 0
    #expect(
      loop.turn(upToMilliseconds: 30_000) {
        if written < source.count {
          let end = min(source.count, written + Int.random(in: 1...200_000))
          transport.write(source[written..<end])
          written = end
        }
        return delegate.received.count == source.count
      })
    // Not inside the macro: on a failure it would compute the difference of two long arrays, for hours.
    let isWhole = delegate.received == source
    #expect(isWhole)
    #expect(delegate.openCount == 1)
    #expect(transport.peerDescription == "127.0.0.1:\(listener.port) (127.0.0.1:\(listener.port))")
    transport.close()
    #expect(loop.turn { delegate.closeCount == 1 && acceptor.delegates[0].closeCount == 1 })
    #expect(delegate.error == nil && acceptor.delegates[0].error == nil)
    // Not inside the macro: on a failure it would compute the difference of two long arrays, for hours.
    let isEchoWhole = acceptor.delegates[0].received == source
    #expect(isEchoWhole)
  }

  @Test func aTakenPortIsNamedWithAdvice() throws {
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let error = #expect(throws: LoopError.self) {
      try Listener.listen(loop: loop, host: "127.0.0.1", port: listener.port, delegate: acceptor)
    }
    let text =
      "listening on 127.0.0.1:\(listener.port) failed: Address already in use; end the program that listens there, or choose another address"
    #expect(error?.description == text)
    #expect(LoopError(call: "eventfd", code: EMFILE).description.contains("ulimit -n"))
    listener.close()
  }

  @Test func aUnixSocketConnects() throws {
    let loop = try EventLoop()
    let directory = TemporaryDirectory()
    let acceptor = AcceptingDelegate(loop: loop)
    acceptor.configure = { $0.echoes = true }
    let path = directory.file("s")
    let listener = try Listener.listen(loop: loop, unixPath: path, delegate: acceptor)
    let delegate = RecordingDelegate()
    let transport = connect(loop, Endpoint(unixPath: path), delegate)
    transport.write("before it opened")
    #expect(loop.turn { delegate.text == "before it opened" })
    transport.abort()
    listener.close()
    #expect(!FileManager.default.fileExists(atPath: path))
  }

  /// The reader does not consume: reading stops at the limit, the loop does not spin, and all bytes arrive later.
  @Test func readingPausesAtItsLimitAndResumesByItself() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    let (reader, writer) = (RecordingDelegate(), RecordingDelegate())
    reader.consumes = false
    var options = ConnectOptions()
    options.inboundLimit = 64 * 1024
    let reading = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, options: options, delegate: reader)
    let writing = Transport.adopt(loop: loop, fileDescriptor: far, tls: nil, delegate: writer)
    let source = patternBytes(3 << 20)
    writing.write(source[...])
    #expect(loop.turn { reading.inbound.count == 64 * 1024 })
    let turns = loop.turnCount
    loop.turn(forMilliseconds: 200)
    #expect(loop.turnCount - turns < 30)
    #expect(reading.inbound.count == 64 * 1024)
    #expect(writing.pendingBytes > 1 << 20)
    reader.consumes = true
    reader.consume(reading)
    #expect(loop.turn { reader.received.count == source.count })
    // Not inside the macro: on a failure it would compute the difference of two long arrays, for hours.
    let isWhole = reader.received == source
    #expect(isWhole)
  }

  /// The peer closes while reading is paused: the loop does not spin on the hang-up, and every byte still arrives.
  @Test func aPeerThatEndsDuringAPauseIsReadToItsEnd() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    let (reader, writer) = (RecordingDelegate(), RecordingDelegate())
    reader.consumes = false
    var options = ConnectOptions()
    options.inboundLimit = 1024
    let reading = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, options: options, delegate: reader)
    let writing = Transport.adopt(loop: loop, fileDescriptor: far, tls: nil, delegate: writer)
    writing.write(patternBytes(10_000)[...])
    #expect(loop.turn { reading.inbound.count == 1024 && writing.pendingBytes == 0 })
    writing.abort()
    let turns = loop.turnCount
    loop.turn(forMilliseconds: 200)
    #expect(loop.turnCount - turns < 30)
    #expect(reader.closeCount == 0)
    reader.consumes = true
    reader.consume(reading)
    #expect(loop.turn { reader.closeCount == 1 })
    #expect(reader.received == patternBytes(10_000))
  }

  @Test func aPeerThatClosesItsHalfStillHearsTheAnswer() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    let delegate = RecordingDelegate()
    _ = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, delegate: delegate)
    let peer = FileHandle(fileDescriptor: far, closeOnDealloc: true)
    peer.write(Data("question".utf8))
    shutdown(far, Int32(SHUT_WR))
    // The request and the peer's close come in one turn: the answer is written in it.
    delegate.onReceive = { if delegate.text == "question" { $0.write("answer") } }
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.error == nil)
    #expect(try peer.readToEnd() == Data("answer".utf8))
  }

  @Test func closeWritesEverythingFirst() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    let (left, right) = (RecordingDelegate(), RecordingDelegate())
    var options = ConnectOptions()
    options.closeTimeoutMilliseconds = 30_000
    let transport = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, options: options, delegate: left)
    _ = Transport.adopt(loop: loop, fileDescriptor: far, tls: nil, delegate: right)
    #expect(loop.turn { transport.isOpen })
    let source = patternBytes(2 << 20)
    transport.write(source[...])
    transport.close()
    #expect(!transport.isOpen && left.closeCount == 0)
    #expect(loop.turn { left.closeCount == 1 && right.closeCount == 1 })
    // Not inside the macro: on a failure it would compute the difference of two long arrays, for hours.
    let isWhole = right.received == source
    #expect(isWhole)
    #expect(left.error == nil && right.error == nil)
  }

  @Test func closeIsBoundedInTimeWhereThePeerTakesNothing() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    defer { _ = FileHandle(fileDescriptor: far, closeOnDealloc: true) }
    let delegate = RecordingDelegate()
    var options = ConnectOptions()
    options.closeTimeoutMilliseconds = 100
    let transport = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, options: options, delegate: delegate)
    #expect(loop.turn { transport.isOpen })
    transport.write(patternBytes(4 << 20)[...])
    transport.close()
    #expect(loop.turn(upToMilliseconds: 3000) { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .timeout)
  }

  @Test func abortTellsOnceAndNeverInsideTheCall() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    let (left, right) = (RecordingDelegate(), RecordingDelegate())
    let transport = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, delegate: left)
    _ = Transport.adopt(loop: loop, fileDescriptor: far, tls: nil, delegate: right)
    #expect(loop.turn { left.openCount == 1 && right.openCount == 1 })
    transport.abort()
    transport.abort()
    transport.close()
    #expect(left.closeCount == 0)
    #expect(loop.turn { left.closeCount == 1 && right.closeCount == 1 })
    #expect(left.error?.kind == .aborted)
    loop.turn(forMilliseconds: 30)
    #expect(left.closeCount == 1 && right.closeCount == 1)
  }

  @Test func aReceiverMayAbortFromItsCallback() throws {
    let loop = try EventLoop()
    let (near, far) = try makeSocketPair()
    let (left, right) = (RecordingDelegate(), RecordingDelegate())
    left.onReceive = { $0.abort() }
    _ = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, delegate: left)
    let peer = Transport.adopt(loop: loop, fileDescriptor: far, tls: nil, delegate: right)
    peer.write("x")
    #expect(loop.turn { left.closeCount == 1 && right.closeCount == 1 })
  }

  /// The peer sends, then resets the connection with our bytes unread: its last bytes still arrive.
  @Test func lastWordsAreHeardBeforeAReset() throws {
    let loop = try EventLoop()
    let holder = HoldingDelegate()
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: holder)
    let delegate = RecordingDelegate()
    let transport = connect(loop, Endpoint(host: "127.0.0.1", port: listener.port), delegate)
    transport.write("unread")
    #expect(loop.turn { holder.descriptor >= 0 && delegate.openCount == 1 && transport.pendingBytes == 0 })
    loop.turn(forMilliseconds: 20)
    let peer = FileHandle(fileDescriptor: holder.descriptor)
    peer.write(Data("last words".utf8))
    try peer.close()
    transport.write("into the void")
    loop.flush()
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.text == "last words")
    #expect(delegate.error?.kind == .broken)
  }

  @Test func aRefusedConnectionSaysWhereAndWhy() throws {
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let port = listener.port
    listener.close()
    let delegate = RecordingDelegate()
    _ = connect(loop, Endpoint(host: "127.0.0.1", port: port), delegate)
    #expect(delegate.closeCount == 0)
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .connect)
    let text = delegate.error?.description ?? ""
    #expect(text.contains("127.0.0.1:\(port)") && text.contains("Connection refused"))
  }

  @Test func theNextAddressIsTriedWhereOneRefuses() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { _, port in
      .success(["127.0.0.2", "127.0.0.1", "127.0.0.3"].compactMap { SocketAddress(numericHost: $0, port: port) })
    }
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    for _ in 0..<10 {
      let delegate = RecordingDelegate()
      let transport = connect(loop, Endpoint(host: "service.test", port: listener.port), delegate)
      #expect(loop.turn(upToMilliseconds: 2000) { delegate.openCount == 1 })
      #expect(transport.peerDescription == "service.test:\(listener.port) (127.0.0.1:\(listener.port))")
      transport.abort()
    }
  }

  @Test func aNameWithoutAddressesIsAResolveError() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in
      .failure(ResolverError(host: host, text: "Name or service not known"))
    }
    let delegate = RecordingDelegate()
    _ = connect(loop, Endpoint(host: "gone.test", port: 1), delegate)
    #expect(loop.turn { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .resolve)
    #expect(delegate.error?.text == "looking up gone.test failed: Name or service not known")
  }

  @Test func anEndlessLookUpEndsWithTheConnectTimeout() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { host, _ in
      usleep(1_000_000)
      return .failure(ResolverError(host: host, text: "late"))
    }
    let delegate = RecordingDelegate()
    _ = connect(loop, Endpoint(host: "slow.test", port: 1), delegate) { $0.connectTimeoutMilliseconds = 80 }
    #expect(loop.turn(upToMilliseconds: 900) { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .timeout)
    loop.turn(forMilliseconds: 1100)
    #expect(delegate.closeCount == 1)
  }

  @Test func aBlackHoleEndsWithATimeout() throws {
    let loop = try EventLoop()
    let hole = try BlackHole(loop: loop, host: "127.0.0.1", port: 0)
    let delegate = RecordingDelegate()
    _ = connect(loop, Endpoint(host: "127.0.0.1", port: hole.port), delegate) { $0.connectTimeoutMilliseconds = 150 }
    #expect(loop.turn(upToMilliseconds: 3000) { delegate.closeCount == 1 })
    #expect(delegate.error?.kind == .timeout)
    #expect(delegate.openCount == 0)

    let second = RecordingDelegate()
    _ = connect(loop, Endpoint(host: "127.0.0.1", port: hole.port), second) { $0.attemptTimeoutMilliseconds = 100 }
    #expect(loop.turn(upToMilliseconds: 3000) { second.closeCount == 1 })
    #expect(second.error?.kind == .connect)
    #expect(second.error?.text.contains("no answer within 100 ms") == true)
  }

  @Test func aSilentAddressDelaysTheNextByTheStaggerOnly() throws {
    let loop = try EventLoop(mailboxCapacity: 16) { _, port in
      .success(["127.0.0.2", "127.0.0.1"].compactMap { SocketAddress(numericHost: $0, port: port) })
    }
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let hole = try BlackHole(loop: loop, host: "127.0.0.2", port: listener.port)
    for _ in 0..<6 {
      let delegate = RecordingDelegate()
      let transport = connect(loop, Endpoint(host: "service.test", port: hole.port), delegate) {
        $0.staggerMilliseconds = 40
      }
      #expect(loop.turn(upToMilliseconds: 2000) { delegate.openCount == 1 })
      transport.abort()
    }
  }

  @Test func descriptorsStayFlatOverManyConnections() throws {
    let loop = try EventLoop()
    let acceptor = AcceptingDelegate(loop: loop)
    let listener = try Listener.listen(loop: loop, host: "127.0.0.1", port: 0, delegate: acceptor)
    let before = try descriptorCount()
    for index in 0..<200 {
      let delegate = RecordingDelegate()
      let transport = connect(loop, Endpoint(host: "127.0.0.1", port: listener.port), delegate)
      #expect(loop.turn { delegate.openCount == 1 && acceptor.delegates.count == index + 1 })
      if index % 2 == 0 { transport.close() } else { transport.abort() }
      #expect(loop.turn { delegate.closeCount == 1 && acceptor.delegates[index].closeCount == 1 })
    }
    // Other tests run at the same time; 200 leaked connections would be 400 descriptors.
    #expect(try descriptorCount() - before < 100)
    #expect(loop.scheduledCount == 0)
  }

  @Test func aTransportGoesWhenItIsClosedAndDropped() throws {
    let loop = try EventLoop()
    weak var weakly: Transport?
    let delegate = RecordingDelegate()
    do {
      let (near, far) = try makeSocketPair()
      let transport = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, delegate: delegate)
      FileHandle(fileDescriptor: far).closeFile()
      weakly = transport
    }
    #expect(loop.turn { delegate.closeCount == 1 })
    loop.poll(maximumWaitMilliseconds: 0)
    #expect(weakly == nil)
  }

  @Test func aTransportOutlivesItsLoopWithoutHarm() throws {
    let delegate = RecordingDelegate()
    var transport: Transport?
    var connecting: Transport?
    do {
      let loop = try EventLoop()
      let (near, far) = try makeSocketPair()
      transport = Transport.adopt(loop: loop, fileDescriptor: near, tls: nil, delegate: delegate)
      #expect(loop.turn { delegate.openCount == 1 })
      connecting = connect(loop, Endpoint(host: "127.0.0.1", port: 9), delegate)
      FileHandle(fileDescriptor: far).closeFile()
    }
    transport?.write("x")
    transport?.close()
    connecting?.abort()
    #expect(transport?.isClosed == true && delegate.closeCount == 0)
  }

  private func descriptorCount() throws -> Int {
    try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
  }
}

/// Accepts one connection and ignores it.
private final class HoldingDelegate: ListenerDelegate {
  var descriptor: Int32 = -1

  func listener(_ listener: Listener, didAccept fileDescriptor: Int32) {
    descriptor = fileDescriptor
  }
}

/// An address that swallows connection requests: a listener with a full queue that is never polled.
private final class BlackHole {
  private let sleepingLoop: EventLoop
  private let acceptor: AcceptingDelegate
  private let listener: Listener
  private let delegate = RecordingDelegate()
  private var fillers: [Transport] = []
  let port: UInt16

  init(loop: EventLoop, host: String, port: UInt16) throws {
    sleepingLoop = try EventLoop()
    acceptor = AcceptingDelegate(loop: sleepingLoop)
    listener = try Listener.listen(loop: sleepingLoop, host: host, port: port, backlog: 0, delegate: acceptor)
    self.port = listener.port
    for _ in 0..<4 {
      fillers.append(
        Transport.connect(loop: loop, to: Endpoint(host: host, port: self.port), tls: nil, delegate: delegate))
    }
    loop.turn(forMilliseconds: 60)
  }
}
