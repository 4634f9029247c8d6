import Glibc
import PushCore
import PushIO
import TestSupport
import Testing

/// How a client's connection ends: the client's report of each request must match what its peer has seen.
@Suite(.timeLimit(.minutes(5)))
struct HTTP2ConnectionEndTests {
  /// The other end of the socket, on which a test writes and reads HTTP/2 byte by byte.
  private final class BarePeer {
    let descriptor: Int32
    private var received: [UInt8] = []

    init(_ descriptor: Int32) { self.descriptor = descriptor }
    deinit { close(descriptor) }

    func say(_ bytes: [UInt8]) {
      let count = unsafe write(descriptor, bytes, bytes.count)
      #expect(count == bytes.count)
    }

    /// The types of all received frames, in order, without the preface.
    var frames: [UInt8] {
      var buffer = [UInt8](repeating: 0, count: 65_536)
      while case let count = unsafe read(descriptor, &buffer, buffer.count), count > 0 {
        received += buffer[..<count]
      }
      var types: [UInt8] = []
      var place = 24
      while place + 9 <= received.count {
        types.append(received[place + 3])
        place += 9 + Int(received[place]) << 16 + Int(received[place + 1]) << 8 + Int(received[place + 2])
      }
      #expect(place == max(24, received.count), "whole frames, and nothing behind them")
      return types
    }
  }

  private final class World {
    let loop: EventLoop
    let peer: BarePeer
    var client: HTTP2ClientConnection?
    var notProcessed: Set<UInt32> = []
    var lost: [UInt32: HTTP2ErrorCode] = [:]
    var ends: [HTTP2Error?] = []
    private var headers = HTTP2HeaderList()

    /// A connection that is open, with a limit of a hundred streams.
    init() throws {
      loop = try EventLoop()
      let (one, other) = try makeSocketPair()
      peer = BarePeer(other)
      client = HTTP2ClientConnection.adopt(loop: loop, fileDescriptor: one, tls: nil)
      peer.say(HTTP2MemoryPair.frame(type: 4, [0, 3, 0, 0, 0, 100]))
      #expect(turn { client?.streamLimit == 100 })
    }

    func submit(_ number: UInt32, body: [UInt8] = [1]) -> Bool {
      headers.removeAll()
      headers.append(.method, "POST")
      headers.append(.scheme, "https")
      headers.append(.authority, "localhost")
      headers.append(.path, "/3/device/00")
      return client?.submit(
        headers, body: body, bodyRange: 0..<body.count, ticket: Ticket(index: number, generation: 1)) ?? false
    }

    func turn(until condition: () -> Bool) -> Bool {
      loop.turn {
        drain()
        return condition()
      }
    }

    /// Lets the connection go once it reported its end, as a pool does.
    func drain() {
      while let event = client?.nextEvent() {
        switch event {
        case .notProcessed(let ticket): notProcessed.insert(ticket.index)
        case .lost(let ticket, let code): lost[ticket.index] = code
        case .closed(let error):
          ends.append(error)
          client = nil
        case .opened, .settingsChanged, .goAway, .pingAcknowledged, .response: break
        }
      }
    }
  }

  private static let headers: UInt8 = 1
  private static let goAway: UInt8 = 7

  @Test func nothingIsTakenOnceThePeerHasEnded() throws {
    let world = try World()
    #expect(world.submit(1))
    world.loop.flush()
    #expect(world.peer.frames.count { $0 == Self.headers } == 1)
    #expect(shutdown(world.peer.descriptor, Int32(SHUT_WR)) == 0)
    world.loop.poll(maximumWaitMilliseconds: 1000)
    #expect(world.client?.isGoingAway == true)
    #expect(!world.submit(2))
    #expect(world.turn { !world.ends.isEmpty })
    #expect(world.lost == [1: .connectError])
    #expect(world.notProcessed.isEmpty)
    #expect(world.peer.frames.count { $0 == Self.headers } == 1)
  }

  @Test func whatWasNotWrittenWhenThePeerEndedIsNeverWritten() throws {
    let world = try World()
    #expect(world.submit(1))
    #expect(shutdown(world.peer.descriptor, Int32(SHUT_WR)) == 0)
    world.loop.poll(maximumWaitMilliseconds: 1000)
    #expect(world.turn { !world.ends.isEmpty })
    #expect(world.notProcessed == [1] && world.lost.isEmpty)
    _ = world.turn { world.loop.scheduledCount == 0 }
    #expect(!world.peer.frames.contains(Self.headers))
  }

  /// One turn sees the last bytes of a peer and its close: nothing is sent in between.
  @Test func theEndIsSeenWithTheLastBytes() throws {
    let world = try World()
    world.peer.say(HTTP2MemoryPair.frame(type: 4, [0, 3, 0, 0, 0, 50]))
    #expect(shutdown(world.peer.descriptor, Int32(SHUT_WR)) == 0)
    world.loop.poll(maximumWaitMilliseconds: 1000)
    #expect(world.client?.streamLimit == 50)
    #expect(!world.submit(1))
    #expect(world.turn { !world.ends.isEmpty })
    #expect(world.lost.isEmpty)
  }

  /// A request that is reported as not processed must not be on the wire, and the peer must get GOAWAY with the cause.
  @Test func aViolationIsReportedAndWhatWasNotWrittenIsNeverWritten() throws {
    let world = try World()
    #expect(world.submit(1, body: [UInt8](repeating: 1, count: 3000)))
    world.loop.flush()
    #expect(world.submit(2))
    #expect(world.submit(3, body: []))
    world.peer.say(HTTP2MemoryPair.frame(type: 6, [1]))
    #expect(world.turn { !world.ends.isEmpty })
    #expect(world.lost == [1: .frameSizeError])
    #expect(world.notProcessed == [2, 3])
    #expect(world.turn { world.loop.scheduledCount == 0 || world.peer.frames.contains(Self.goAway) })
    let frames = world.peer.frames
    #expect(frames.last == Self.goAway)
    #expect(frames.count { $0 == Self.headers } == 1)
  }

  /// A connection that is released in the turn of a violation still sends the reason.
  @Test func aGoAwayLeavesThoughTheConnectionIsLetGo() throws {
    let world = try World()
    world.peer.say(HTTP2MemoryPair.frame(type: 6, stream: 1, [UInt8](repeating: 0, count: 8)))
    #expect(world.turn { !world.ends.isEmpty })
    #expect(world.client == nil)
    #expect(world.turn { world.peer.frames.last == Self.goAway })
    // Its socket closes once the peer has closed, and at the latest at its deadline.
    #expect(shutdown(world.peer.descriptor, Int32(SHUT_WR)) == 0)
    #expect(world.turn { world.loop.scheduledCount == 0 })
  }

  @Test func aConnectionThatIsLetGoWhileOpenEndsAtOnce() throws {
    let world = try World()
    #expect(world.submit(1))
    world.client = nil
    world.loop.flush()
    #expect(!world.peer.frames.contains(Self.headers))
    var byte: UInt8 = 0
    #expect(unsafe read(world.peer.descriptor, &byte, 1) == 0)
  }
}
