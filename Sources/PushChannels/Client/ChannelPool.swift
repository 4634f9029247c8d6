import PushCore
import PushCredentials
import PushIO

/// The way of one (credential, environment) to its management host: the calls that wait, and a connection that is opened
/// for them, replaced where it goes away, and closed when nobody asks for anything.
final class ChannelPool {
  private let loop: EventLoop
  /// A reload may put a related key in its place: requests carry the newer one's tokens then.
  var credential: Credential
  private let host: APNsHost
  private let tokens: ProviderTokens
  private let configuration: ChannelClientConfiguration
  private var waiting = RingBuffer<ChannelCall>(growingFrom: 8)
  /// Takes new calls, or will once it is open.
  private var connection: ChannelConnection?
  /// Finish what they have.
  private var leaving: [ChannelConnection] = []
  /// Calls that rest before they are sent again.
  private var resting = 0
  /// When something was sent, answered or opened last: those who wait lose patience only while nothing moves.
  private var movedAt: Instant
  private var connectAllowedAt: Instant
  private var random: SeededRandom
  private var isClosing = false
  private var isRevoked = false

  init(
    loop: EventLoop, credential: Credential, environment: APNsEnvironment, tokens: ProviderTokens,
    configuration: ChannelClientConfiguration, seed: UInt64
  ) {
    self.loop = loop
    self.credential = credential
    self.tokens = tokens
    self.configuration = configuration
    host = configuration.host(environment)
    movedAt = loop.now.monotonic
    connectAllowedAt = loop.now.monotonic
    random = SeededRandom(seed: seed)
  }

  func perform(_ call: ChannelCall) {
    if isClosing {
      call.fail(.closed, host: host)
    } else if waiting.count >= configuration.waitingMaximum {
      call.fail(.tooManyWaiting(waiting.count), host: host)
    } else {
      waiting.append(call)
    }
  }

  /// Calls that were not reported yet.
  var callCount: Int {
    waiting.count + resting + (connection?.callCount ?? 0) + leaving.reduce(0) { $0 + $1.callCount }
  }

  /// No connection is left, after `close`.
  var isClosed: Bool { isClosing && resting == 0 && connection == nil && leaving.isEmpty }

  /// Once a turn: hears what ended, then sends what there is room for.
  func turn() {
    let now = loop.now
    for leaver in leaving { leaver.turn(now: now.monotonic) { ended($0, on: leaver, now) } }
    leaving.removeAll { $0.isClosed }
    if let connection {
      let wasOpen = connection.hasOpened
      connection.turn(now: now.monotonic) { ended($0, on: connection, now) }
      if connection.hasOpened, !wasOpen { movedAt = now.monotonic }
      look(at: connection, now.monotonic)
    }
    sendWaiting(now)
    failImpatient(now.monotonic)
  }

  /// Takes no more calls, lets those that were sent finish, and closes. Returns the calls that still waited.
  func close() -> [ChannelCall] {
    isClosing = true
    if let connection { leave(connection, .retired) }
    return waiting.takeAll()
  }

  /// Takes no more calls and ends every connection at once: what is on them may or may not be carried out. Returns the calls
  /// that still waited.
  func revoke() -> [ChannelCall] {
    isRevoked = true
    let calls = close()
    for leaver in leaving { leaver.abort("the credential was revoked") }
    return calls
  }

  // MARK: - The connection

  /// After its turn: it may have ended, be on its way out, or have been idle for long.
  private func look(at connection: ChannelConnection, _ now: Instant) {
    if connection.isClosed {
      if self.connection === connection { self.connection = nil }
      if !connection.hasAnswered { connectAllowedAt = now.adding(milliseconds: configuration.reconnectMilliseconds) }
      if !connection.hasOpened { failedToConnect(connection.failure ?? "the connection was closed at once") }
    } else if connection.isLeaving {
      leave(connection, .goAway)
    } else if connection.hasOpened, connection.callCount == 0, waiting.isEmpty,
      now.milliseconds(since: connection.quietSince) >= configuration.idleMilliseconds
    {
      leave(connection, .unneeded)
    }
  }

  /// The connection takes no more calls; the next one gets a new one.
  private func leave(_ leaver: ChannelConnection, _ reason: ConnectionState.EndReason) {
    guard leaver === connection else { return }
    leaver.drain(reason)
    leaving.append(leaver)
    connection = nil
  }

  private func failedToConnect(_ text: String) {
    // Nobody is helped by waiting for a host that is not there: whoever asked decides whether to ask again.
    for call in waiting.takeAll() { call.fail(.unreachable(text: text), host: host) }
  }

  // MARK: - Sending

  private func sendWaiting(_ now: Now) {
    guard !waiting.isEmpty else { return }
    guard let connection else {
      if now.monotonic >= connectAllowedAt { connect() }
      return
    }
    guard connection.hasRoom, let (authorization, serial) = authorization() else { return }
    while connection.hasRoom, let call = waiting.popFirst() {
      guard connection.send(call, authorization: authorization, tokenSerial: serial, now: now.monotonic) else {
        waiting.prepend(call)
        return
      }
      movedAt = now.monotonic
    }
  }

  private func connect() {
    connection = ChannelConnection(
      loop: loop, host: host, tls: host.isPlaintext ? nil : credential.tls, configuration: configuration)
  }

  /// What requests carry now; nil: a provider token is still to come, or cannot be made, which those who wait know.
  private func authorization() -> (bytes: [UInt8], serial: UInt32)? {
    guard case .token(let handle) = credential.authorization else { return ([], 0) }
    if let token = tokens.current(handle, now: loop.tokenNow, random: random.next()) {
      return (token.authorization, token.serial)
    }
    if let failure = tokens.takeFailure(handle) {
      for call in waiting.takeAll() { call.fail(.noProviderToken(text: failure), host: host) }
    }
    return nil
  }

  private func failImpatient(_ now: Instant) {
    guard now.milliseconds(since: movedAt) >= configuration.waitMilliseconds else { return }
    while let call = waiting.first, now.milliseconds(since: call.waitingSince) >= configuration.waitMilliseconds {
      _ = waiting.popFirst()
      call.fail(
        .unreachable(text: "no connection was free within \(configuration.waitMilliseconds) ms"), host: host)
    }
  }

  // MARK: - Endings

  private func ended(_ ending: ChannelConnection.Ending, on connection: ChannelConnection, _ now: Now) {
    movedAt = now.monotonic
    let call = ending.call
    if isRevoked, case .lost(let text) = ending.event {
      // Nothing is sent again with this credential.
      call.fail(.unanswered(text: text), host: host)
      return
    }
    var event = ending.event
    if case .answered(let status, let reason) = ending.event {
      let verdict = Verdict(status: status, reason: reason)
      let effect = apply(verdict.token, ending.tokenSerial)
      // Its `iat` did not fit APNs' clock, as that of an expired one: another token follows.
      if effect == .replaced { event = .answered(status: status, reason: .expiredProviderToken) }
      if verdict.connection == .close { leave(connection, .advised) }
    }
    switch call.state.ended(event, of: call.request) {
    case .take:
      take(ending)
    case .sendAgain(let closing, let milliseconds):
      if closing { leave(connection, .advised) }
      again(call, afterMilliseconds: milliseconds)
    case .renew:
      leave(connection, .advised)
      again(call, afterMilliseconds: 0)
    case .fail(let kind):
      call.fail(kind, host: host)
    }
  }

  private func take(_ ending: ChannelConnection.Ending) {
    guard case .answered(let status, _) = ending.event, let answer = ending.answer else {
      preconditionFailure("only an answer is taken")
    }
    switch answer {
    case .success(let answer): ending.call.succeed(answer)
    case .failure(let fault): ending.call.fail(.notUnderstood(status: status, text: fault.text), host: host)
    }
  }

  /// What an answer says of the token.
  private func apply(_ advice: Verdict.TokenAdvice, _ tokenSerial: UInt32) -> ProviderTokens.Effect {
    guard case .token(let handle) = credential.authorization else { return .none }
    let now = loop.tokenNow
    return switch advice {
    case .keep: .none
    case .renew: tokens.expired(handle, serial: tokenSerial, now: now, random: random.next())
    case .replaceIfMisdated:
      switch tokens.invalid(handle, serial: tokenSerial, now: now, random: random.next()) {
      // Without a fleet, the new one is there at once.
      case .changed: .replaced
      case let effect: effect
      }
    case .keepOlder: tokens.tooManyUpdates(handle, serial: tokenSerial, now: now)
    }
  }

  private func again(_ call: ChannelCall, afterMilliseconds delay: Int64) {
    guard delay > 0 else {
      wait(call)
      return
    }
    resting += 1
    loop.schedule(afterMilliseconds: delay) { [weak self] in
      guard let self else { return }
      resting -= 1
      wait(call)
    }
  }

  /// Before the others: it has waited longer.
  private func wait(_ call: ChannelCall) {
    guard !isClosing else {
      call.fail(isRevoked ? .revoked(credential: credential.name) : .closed, host: host)
      return
    }
    call.waitingSince = loop.now.monotonic
    waiting.prepend(call)
  }
}
