import PushCore
import Testing

@testable import PushIO

/// The machine as protocol traces: one expectation of event → action a line.
struct AMQPConnectionStateTests {
  private func at(_ milliseconds: Int64) -> Instant { Instant(nanoseconds: milliseconds * 1_000_000) }

  private func newState(heartbeat: UInt16 = 10) -> AMQPConnectionState {
    AMQPConnectionState(options: AMQPOptions(), heartbeatSeconds: heartbeat, user: "u", virtualHost: "/v")
  }

  private func readyState() throws -> AMQPConnectionState {
    var state = newState()
    #expect(state.transportOpened(now: at(0)) == .sendProtocolHeader)
    #expect(
      try state.received(.connectionStart(mechanisms: "AMQPLAIN PLAIN", server: "RabbitMQ 3.10.8"), id: 0, channel: 0)
        == .sendStartOK)
    #expect(
      try state.received(.connectionTune(channelMax: 2047, frameMax: 131_072, heartbeatSeconds: 60), id: 0, channel: 0)
        == .sendTuneOKAndOpen(AMQPTuning(channelMax: 4, frameMax: 131_072, heartbeatSeconds: 10)))
    #expect(try state.received(.connectionOpenOK, id: 0, channel: 0) == .tell(.opened))
    return state
  }

  private func openState() throws -> AMQPConnectionState {
    var state = try readyState()
    let number = state.requested(.openChannel, channel: 1)
    #expect(
      try state.received(.channelOpenOK, id: 0, channel: 1)
        == .tell(.completed(channel: 1, operation: number, reply: AMQPReply())))
    return state
  }

  @Test func handshake() throws {
    let state = try readyState()
    #expect(state.phase == .ready)
    #expect(state.server == "RabbitMQ 3.10.8")
  }

  @Test(arguments: [
    (UInt16(60), UInt16(10), UInt16(10)), (5, 10, 5), (0, 10, 10), (60, 0, 0), (0, 0, 0),
  ])
  func heartbeatIsTheSmallerOne(theirs: UInt16, ours: UInt16, agreed: UInt16) throws {
    var state = newState(heartbeat: ours)
    _ = state.transportOpened(now: at(0))
    _ = try state.received(.connectionStart(mechanisms: "PLAIN", server: ""), id: 0, channel: 0)
    _ = try state.received(
      .connectionTune(channelMax: 0, frameMax: 0, heartbeatSeconds: theirs), id: 0, channel: 0)
    #expect(state.tuning == AMQPTuning(channelMax: 4, frameMax: 131_072, heartbeatSeconds: agreed))
  }

  @Test func mechanismsWithoutPlain() throws {
    var state = newState()
    _ = state.transportOpened(now: at(0))
    #expect(throws: AMQPError.noCommonMechanism(offered: "EXTERNAL")) {
      try state.received(.connectionStart(mechanisms: "EXTERNAL", server: ""), id: 0, channel: 0)
    }
  }

  @Test func wrongPasswordIsNamed() throws {
    var state = newState()
    _ = state.transportOpened(now: at(0))
    _ = try state.received(.connectionStart(mechanisms: "PLAIN", server: ""), id: 0, channel: 0)
    #expect(
      try state.received(.connectionClose(code: 403, text: "ACCESS_REFUSED"), id: 0, channel: 0)
        == .sendCloseOKAndEnd(.accessRefused(user: "u", virtualHost: "/v", text: "ACCESS_REFUSED")))
    #expect(state.phase == .closed)
  }

  @Test func answersComeInOrder() throws {
    var state = try openState()
    let first = state.requested(.declareQueue(name: "q", arguments: []), channel: 1)
    let second = state.requested(.bind(queue: "q", exchange: "e", routingKey: ""), channel: 1)
    #expect(
      try state.received(.queueDeclareOK(messageCount: 3, consumerCount: 1), id: 0, channel: 1)
        == .tell(
          .completed(channel: 1, operation: first, reply: AMQPReply(messageCount: 3, consumerCount: 1))))
    #expect(
      try state.received(.queueBindOK, id: 0, channel: 1)
        == .tell(.completed(channel: 1, operation: second, reply: AMQPReply())))
    #expect(throws: AMQPError.unexpectedMethod(id: 7, channel: 1)) {
      try state.received(.queueBindOK, id: 7, channel: 1)
    }
  }

  @Test func anAnswerToAnotherQuestionIsAFault() throws {
    var state = try openState()
    _ = state.requested(.declareQueue(name: "q", arguments: []), channel: 1)
    #expect(throws: AMQPError.unexpectedMethod(id: 9, channel: 1)) {
      try state.received(.queueBindOK, id: 9, channel: 1)
    }
  }

  @Test func channelClosedByTheBroker() throws {
    var state = try openState()
    _ = state.requested(.declareQueue(name: "q", arguments: []), channel: 1)
    let text =
      "PRECONDITION_FAILED - inequivalent arg 'x-delivery-limit' for queue 'push.jobs.bulk' in vhost '/': "
      + "received '20' but current is '10'"
    #expect(
      try state.received(.channelClose(code: 406, text: text), id: 0, channel: 1)
        == .sendChannelCloseOK(channel: 1, tell: .channelClosed(channel: 1)))
    #expect(
      state.error(ofChannel: 1)
        == .mismatch(
          AMQPMismatch(
            kind: "queue", name: "push.jobs.bulk", argument: "x-delivery-limit", wanted: "'20'", existing: "'10'")))
    #expect(!state.isOpen(channel: 1))
    // Anything that still comes on it is the broker's fault; a reopened channel works as before.
    #expect(throws: AMQPError.unexpectedChannel(1)) { try state.received(.qosOK, id: 0, channel: 1) }
    _ = state.requested(.openChannel, channel: 1)
    _ = try state.received(.channelOpenOK, id: 0, channel: 1)
    #expect(state.isOpen(channel: 1))
  }

  @Test func whatComesWhileWeCloseAChannelIsDropped() throws {
    var state = try openState()
    let number = state.requested(.closeChannel, channel: 1)
    #expect(try state.received(.deliver(tag: 1, isRedelivered: false), id: 0, channel: 1) == .none)
    #expect(try state.contentHeader(channel: 1, size: 5) == false)
    #expect(try state.contentBody(channel: 1, count: 5) == false)
    #expect(
      try state.received(.channelCloseOK, id: 0, channel: 1)
        == .tell(.completed(channel: 1, operation: number, reply: AMQPReply())))
  }

  /// A peer that opens slowly must not keep a channel's number in use for ever.
  @Test func aChannelIsClosedBeforeItIsOpen() throws {
    var state = try readyState()
    _ = state.requested(.openChannel, channel: 1)
    _ = state.requested(.prefetch(1), channel: 1)
    #expect(state.isInUse(channel: 1) && !state.isOpen(channel: 1))
    let number = state.requested(.closeChannel, channel: 1)
    #expect(!state.isInUse(channel: 1))
    #expect(try state.received(.channelOpenOK, id: 0, channel: 1) == .none)
    #expect(try state.received(.qosOK, id: 0, channel: 1) == .none)
    #expect(try state.received(.deliver(tag: 1, isRedelivered: false), id: 0, channel: 1) == .none)
    #expect(try state.contentHeader(channel: 1, size: 0) == false)
    #expect(
      try state.received(.channelCloseOK, id: 0, channel: 1)
        == .tell(.completed(channel: 1, operation: number, reply: AMQPReply())))
    _ = state.requested(.openChannel, channel: 1)
    _ = try state.received(.channelOpenOK, id: 0, channel: 1)
    #expect(state.isOpen(channel: 1) && state.isInUse(channel: 1))
  }

  @Test func contentInParts() throws {
    var state = try openState()
    #expect(try state.received(.deliver(tag: 7, isRedelivered: true), id: 0, channel: 1) == .none)
    #expect(throws: AMQPError.unexpectedContent(channel: 1)) { try state.contentBody(channel: 1, count: 1) }
    #expect(try state.contentHeader(channel: 1, size: 10) == true)
    #expect(try state.contentBody(channel: 1, count: 4) == true)
    #expect(state.takeContent(channel: 1, bodyMaximum: 8) == nil)
    #expect(throws: AMQPError.unexpectedContent(channel: 1)) { try state.contentBody(channel: 1, count: 7) }
    #expect(throws: AMQPError.unexpectedContent(channel: 1)) { try state.received(.qosOK, id: 0, channel: 1) }
    #expect(try state.contentBody(channel: 1, count: 6) == true)
    #expect(
      state.takeContent(channel: 1, bodyMaximum: 8)
        == .delivery(AMQPDelivery(channel: 1, tag: 7, isRedelivered: true, bodyCount: 10, isOversized: true)))
  }

  @Test func confirmsOfNothing() throws {
    var state = try openState()
    _ = state.requested(.selectConfirms, channel: 1)
    _ = try state.received(.confirmSelectOK, id: 0, channel: 1)
    let numbers = [state.published(channel: 1), state.published(channel: 1)]
    #expect(numbers == [1, 2])
    #expect(
      try state.received(.acknowledged(sequence: 0, isMultiple: true), id: 0, channel: 1)
        == .tell(.confirmed(channel: 1, sequence: 2, isMultiple: true)))
    #expect(throws: AMQPError.confirmOfNothing(sequence: 3, published: 2)) {
      try state.received(.refused(sequence: 3, isMultiple: false), id: 0, channel: 1)
    }
    #expect(throws: AMQPError.confirmOfNothing(sequence: 0, published: 2)) {
      try state.received(.acknowledged(sequence: 0, isMultiple: false), id: 0, channel: 1)
    }
  }

  @Test func framesOnChannelsThatAreNotOpen() throws {
    var state = try readyState()
    #expect(throws: AMQPError.unexpectedChannel(1)) { try state.received(.qosOK, id: 0, channel: 1) }
    #expect(throws: AMQPError.unexpectedChannel(9999)) { try state.contentHeader(channel: 9999, size: 1) }
    var early = newState()
    #expect(throws: AMQPError.unexpectedMethod(id: 3, channel: 0)) {
      try early.received(.connectionOpenOK, id: 3, channel: 0)
    }
  }

  @Test func heartbeats() throws {
    var state = try readyState()
    state.bytesSent()
    #expect(state.tick(now: at(5000), isReading: true) == .none)
    #expect(state.tick(now: at(10_000), isReading: true) == .sendHeartbeat)
    #expect(state.tick(now: at(20_000), isReading: true) == .sendHeartbeat)
    #expect(state.tick(now: at(20_001), isReading: true) == .giveUp(silentMilliseconds: 20_001))
    state.bytesReceived(now: at(20_001))
    #expect(state.tick(now: at(40_000), isReading: true) == .sendHeartbeat)
  }

  /// While the connection is not read, silence means nothing: it counts from the next read.
  @Test func aPeerThatIsNotReadFromIsNotSilent() throws {
    var state = try readyState()
    state.bytesSent()
    #expect(state.tick(now: at(5000), isReading: false) == .none)
    #expect(state.tick(now: at(60_000), isReading: false) == .sendHeartbeat)
    #expect(state.tick(now: at(80_000), isReading: true) == .sendHeartbeat)
    #expect(state.tick(now: at(80_001), isReading: true) == .giveUp(silentMilliseconds: 20_001))
  }

  @Test func blockedAndUnblocked() throws {
    var state = try readyState()
    #expect(
      try state.received(.connectionBlocked(reason: "low on memory"), id: 0, channel: 0) == .tell(.blocked))
    #expect(state.blockedReason == "low on memory")
    #expect(try state.received(.connectionUnblocked, id: 0, channel: 0) == .tell(.unblocked))
    #expect(state.blockedReason == nil)
  }

  /// An answer to each channel.flow; what is told changes with the first channel that is stopped, and with the last one that goes on.
  @Test func aStoppedChannel_blocks() throws {
    var state = try openState()
    _ = state.requested(.openChannel, channel: 2)
    _ = try state.received(.channelOpenOK, id: 0, channel: 2)
    func flow(_ isActive: Bool, _ channel: UInt16 = 1) throws -> AMQPConnectionAction {
      try state.received(.channelFlow(isActive: isActive), id: 0, channel: channel)
    }
    #expect(try flow(true) == .sendFlowOK(channel: 1, isActive: true, tell: nil))
    #expect(try flow(false) == .sendFlowOK(channel: 1, isActive: false, tell: .blocked))
    #expect(state.blockedReason == "channel.flow on channel 1")
    #expect(try flow(false) == .sendFlowOK(channel: 1, isActive: false, tell: nil))
    #expect(try state.received(.deliver(tag: 1, isRedelivered: false), id: 0, channel: 1) == .none)
    let isTaken = try state.contentHeader(channel: 1, size: 0)
    let event = state.takeContent(channel: 1, bodyMaximum: 10)
    #expect(isTaken && event != nil, "it delivers")
    #expect(try flow(false, 2) == .sendFlowOK(channel: 2, isActive: false, tell: nil))
    #expect(try flow(true) == .sendFlowOK(channel: 1, isActive: true, tell: nil))
    #expect(state.blockedReason == "channel.flow on channel 2")
    #expect(try flow(true, 2) == .sendFlowOK(channel: 2, isActive: true, tell: .unblocked))
    #expect(state.blockedReason == nil)
  }

  @Test func anAlarmAndAStoppedChannel_blockUntilBothAreOver() throws {
    var state = try openState()
    #expect(
      try state.received(.channelFlow(isActive: false), id: 0, channel: 1)
        == .sendFlowOK(channel: 1, isActive: false, tell: .blocked))
    #expect(
      try state.received(.connectionBlocked(reason: "low on memory"), id: 0, channel: 0) == .tell(.blocked))
    #expect(state.blockedReason == "low on memory")
    #expect(try state.received(.connectionUnblocked, id: 0, channel: 0) == .none)
    #expect(state.blockedReason == "channel.flow on channel 1")
    let close = try state.received(.channelClose(code: 404, text: "gone"), id: 0, channel: 1)
    #expect(close == .sendChannelCloseOK(channel: 1, tell: .channelClosed(channel: 1)))
    #expect(state.blockedReason == nil, "a new channel is not stopped")
  }

  @Test func goodbye() throws {
    var state = try openState()
    let saidGoodbye = state.closeRequested()
    #expect(saidGoodbye)
    #expect(try state.received(.deliver(tag: 1, isRedelivered: false), id: 0, channel: 1) == .none)
    #expect(try state.received(.connectionBlocked(reason: ""), id: 0, channel: 0) == .none)
    #expect(try state.received(.connectionCloseOK, id: 0, channel: 0) == .end)
    #expect(state.phase == .closed)
    var connecting = newState()
    let hasPeer = connecting.closeRequested()
    #expect(!hasPeer)
  }

  @Test func bothSayGoodbye() throws {
    var state = try readyState()
    let saidGoodbye = state.closeRequested()
    #expect(saidGoodbye)
    #expect(try state.received(.connectionClose(code: 320, text: "CONNECTION_FORCED"), id: 0, channel: 0) == .end)
  }
}
