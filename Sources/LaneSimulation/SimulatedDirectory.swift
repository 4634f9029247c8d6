package import PushCore
package import PushLane

/// The registry of devices, which lanes ask for the devices of pages.
package final class RegistryServer {
  /// By ordinal: when its token was registered, Unix milliseconds; a device without a token has none.
  private var registeredAt: [UInt32: Int64] = [:]
  /// It does not answer until then.
  package var awayUntil: Int64 = 0
  private let auditor: Auditor

  init(auditor: Auditor) {
    self.auditor = auditor
  }

  /// A device's token: the same digits for each ordinal in every world.
  package static func token(_ ordinal: UInt32) -> String {
    "dd" + Hex.text(ordinal, count: 14)
  }

  func register(_ ordinal: UInt32, at time: Int64) { registeredAt[ordinal] = time }

  func registered(_ ordinal: UInt32) -> Int64? { registeredAt[ordinal] }

  /// A device is forgotten.
  package func forget(_ world: SimulatedWorld) {
    let known = registeredAt.keys.sorted()
    guard !known.isEmpty else { return }
    let ordinal = known[world.pick(known.count)]
    registeredAt[ordinal] = nil
    auditor.lostToken(RegistryServer.token(ordinal), at: world.milliseconds)
  }

  /// APNs reported the token as gone since then.
  fileprivate func lose(_ ordinal: UInt32, since: Int64, now: Int64) {
    guard let time = registeredAt[ordinal], time <= since else { return }
    registeredAt[ordinal] = nil
    auditor.lostToken(RegistryServer.token(ordinal), at: now)
  }
}

/// One lane's connection to the registry: answers late, and not at all while the registry is away.
package final class SimulatedDirectory: AudienceDirectory {
  private let world: SimulatedWorld
  private var asked: [(at: Int64, ticket: Ticket, ordinals: [UInt32], isLost: Bool)] = []
  private let timeoutMilliseconds: Int64 = 2_000

  package init(world: SimulatedWorld) {
    self.world = world
  }

  package var knowsDevices: Bool { true }

  /// When the next event is due.
  package var nextDue: Int64 { asked.reduce(.max) { min($0, $1.at) } }

  package func maintain(now: Now) {}

  package func find(
    _ job: borrowing PushJob, isOver: Bool, mayPause: Bool, settled: SettledDevices, apnsID: UUIDValue?, ticket: Ticket,
    now: Now
  ) {
    let bytes = job.bytes
    var ordinals: [UInt32] = []
    for index in 0..<job.page.count { ordinals.append(job.page.ordinal(index, in: bytes.span)) }
    let isLost = world.milliseconds < world.registry.awayUntil
    let delay = isLost ? timeoutMilliseconds : Int64(world.pick(20))
    asked.append((world.milliseconds + delay, ticket, ordinals, isLost))
  }

  package func nextAnswer(now: Now) -> DirectoryAnswer? {
    guard let index = asked.firstIndex(where: { $0.at <= world.milliseconds }) else { return nil }
    let next = asked.remove(at: index)
    guard !next.isLost else { return (next.ticket, .failure(.silent)) }
    var resolution = PageResolution()
    for ordinal in next.ordinals {
      let text = RegistryServer.token(ordinal)
      guard let registeredAt = world.registry.registered(ordinal), let token = Hex.bytes(text.utf8.span) else {
        resolution.skip()
        continue
      }
      let device = "device-\(text)"
      resolution.send(to: token.span, device: device.utf8.span, registeredAt: registeredAt)
    }
    return (next.ticket, .success(resolution))
  }

  private var standings: [(index: Int, job: AudienceID)] = []

  package func ask(about job: AudienceID, index: Int) { standings.append((index, job)) }

  /// No job is paused or cancelled here.
  package func nextStanding() -> (index: Int, job: AudienceID, standing: AudienceStanding?)? {
    standings.popLast().map { ($0.index, $0.job, .running) }
  }

  package func tokenGone(_ job: borrowing PushJob, target: Int, since: Int64) {
    let bytes = job.bytes
    world.registry.lose(job.page.ordinal(target, in: bytes.span), since: since, now: world.milliseconds)
  }

  package func close() {}
}
