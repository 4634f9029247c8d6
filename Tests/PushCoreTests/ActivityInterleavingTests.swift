import PushCore
import Testing

/// Producers, lanes, registrations and devices in any order, every message perhaps twice, every reader perhaps killed between two steps:
/// the newest state comes to every member, none out of order, and a device is started once.
@Suite(.timeLimit(.minutes(2)))
struct ActivityInterleavingTests {
  @Test(arguments: 0..<20)
  func theNewestStateComesToEveryMember(round: Int) {
    for seed in 0..<100 {
      var world = ActivityWorld(seed: UInt64(round * 100 + seed))
      world.play()
      #expect(world.faults.isEmpty, "seed \(world.seed): \(world.faults)")
    }
  }

  /// The world can tell: each of these makes it report.
  @Test(arguments: ActivityWorld.Mutant.allCases)
  func aBrokenOneIsSeen(mutant: ActivityWorld.Mutant) {
    var seen = 0
    for seed in 0..<400 {
      var world = ActivityWorld(seed: UInt64(seed), mutant: mutant)
      world.play()
      if !world.faults.isEmpty { seen += 1 }
    }
    #expect(seen > 0)
  }
}

/// One activity, its jobs, its queues and its devices.
struct ActivityWorld {
  /// What may be wrong with whoever keeps the activity.
  enum Mutant: CaseIterable {
    /// A late token is stored and nothing is published.
    case forgetsLateTokens
    /// The late push is thought published as soon as it is claimed.
    case claimsOnce
    /// The clock does not wait for the next second, and gives a timestamp twice.
    case repeatsTimestamps
    /// Retries do not look at what was sent since.
    case sendsOldRevisions
    /// Each start job starts every device.
    case startsTwice
    /// Alerts in place of starts go to whoever is in their pages.
    case alertsWhomItStarts
    /// Any end of a start's push sets its device free.
    case freesWhomItStarted
  }

  private struct Device {
    var token: UInt8 = 0
    var said: Int64 = 0
    var isShown = false
    var isSwiped = false
    var shown: Int64 = 0
    var starts: Set<UInt64> = []
    var alerts: Set<UInt64> = []
    /// Of the pushes that lanes let through, by token.
    var granted: [UInt8: UInt32] = [:]
  }

  private struct Start: Hashable {
    var device: Int
    var job: UInt64
    var isAlert: Bool
  }

  private enum Message {
    case startPage(job: UInt64, isAlert: Bool, devices: [Int])
    case revise(job: UInt64, isEnd: Bool)
    case begin(number: UInt32)
    case page(ActivityState.Push, timestamp: Int64, devices: [Int])
    /// - Parameter isCopy: its reader lost its connection and goes on; another reader has it too.
    case registration(device: Int, token: [UInt8], at: Int64, isCopy: Bool = false)
    case push(device: Int, token: UInt8, timestamp: Int64)
    case start(Start)
    /// How the push of a start ended is told to whoever keeps the activity.
    case startEnded(Start, hasReached: Bool)
    case gone(device: Int, token: UInt8, at: Int64)
  }

  let seed: UInt64
  private let mutant: Mutant?
  private var random: SeededRandom
  private var now: Int64 = 1_796_000_000_000
  private var activity: ActivityState?
  private var jobs = ActivityJobs()
  private var members: [Int: ActivityMember] = [:]
  private var devices = [Device](repeating: Device(), count: 4)
  private var messages: [Message] = []
  private var timestamps: [UInt32: Int64] = [:]
  /// Whether the pushes of starts reached APNs: all copies of one have one end.
  private var ends: [Start: Bool] = [:]
  private(set) var faults: [String] = []

  init(seed: UInt64, mutant: Mutant? = nil) {
    self.seed = seed
    self.mutant = mutant
    random = SeededRandom(seed: seed)
  }

  private mutating func chance(_ percent: UInt64) -> Bool { random.next() % 100 < percent }

  mutating func play() {
    let isAppStarted = chance(20)
    if isAppStarted { for device in devices.indices { appears(device) } }
    for job in 1...UInt64(1 + random.next() % 3) where !isAppStarted || chance(30) {
      // Where Redis forgot a step's pages, a device that got a start token meanwhile is in pages of both kinds.
      messages.append(.startPage(job: job, isAlert: false, devices: devices.indices.filter { _ in chance(70) }))
      messages.append(.startPage(job: job, isAlert: true, devices: devices.indices.filter { _ in chance(25) }))
    }
    var updates: UInt64 = 0
    for _ in 0..<200 {
      now += Int64(random.next() % 400)
      if updates < 8 && chance(15) {
        updates += 1
        messages.append(.revise(job: 100 + updates, isEnd: chance(8)))
      }
      if chance(3) { changes(Int(random.next() % 4)) }
      step()
    }
    // Everything that is under way comes to its end.
    while !messages.isEmpty && faults.isEmpty {
      now += 50
      step()
    }
    for device in devices.indices { audit(device) }
  }

  private mutating func audit(_ index: Int) {
    let device = devices[index]
    if device.starts.count > 1 { faults.append("device \(index) was started by the jobs \(device.starts)") }
    if device.alerts.count > 1 { faults.append("device \(index) was alerted by the jobs \(device.alerts)") }
    if !device.starts.isEmpty && !device.alerts.isEmpty { faults.append("device \(index) was started and alerted") }
    guard device.isShown, !device.isSwiped, let content = activity?.content else { return }
    if device.shown != content.revision.timestamp {
      faults.append("device \(index) shows \(device.shown), not \(content.revision.timestamp)")
    }
  }

  // MARK: Devices

  private mutating func appears(_ index: Int) {
    devices[index].isShown = true
    says(index, token: devices[index].token + 1)
  }

  private mutating func says(_ index: Int, token: UInt8) {
    if token > devices[index].token { devices[index].token = token }
    devices[index].said = max(devices[index].said + 1, now)
    messages.append(.registration(device: index, token: token == 0 ? [] : [token], at: devices[index].said))
  }

  /// It is swiped away, its token changes, or its app says it once more.
  private mutating func changes(_ index: Int) {
    guard devices[index].isShown, !devices[index].isSwiped else { return }
    switch random.next() % 4 {
    case 0:
      devices[index].isSwiped = true
      says(index, token: 0)
    case 1: says(index, token: devices[index].token + 1)
    default: says(index, token: devices[index].token)
    }
  }

  // MARK: Steps

  private mutating func step() {
    guard !messages.isEmpty else { return }
    let place = Int(random.next() % UInt64(messages.count))
    let message = messages[place]
    // It is given again, because whoever took it dies before or behind what it does, or its acknowledgement is lost.
    let isRepeated = chance(15)
    if !isRepeated { messages.remove(at: place) }
    if isRepeated && chance(30) { return }
    if !isRepeated, case .registration(let device, let token, let at, isCopy: false) = message, chance(20) {
      messages.append(.registration(device: device, token: token, at: at, isCopy: true))
    }
    take(message, isKilled: isRepeated && chance(50))
  }

  private mutating func take(_ message: Message, isKilled: Bool) {
    switch message {
    case .startPage(let job, let isAlert, let targets):
      do throws(ActivityRefusal) {
        _ = try ActivityState.start(&activity, type: "Ride", digest: 1, job: job, jobs: &jobs, now: now)
      } catch {
        return
      }
      for device in targets {
        let start = Start(device: device, job: job, isAlert: isAlert)
        // The page says so.
        if ends[start] != nil { continue }
        let isOurs =
          mutant == .startsTwice || mutant == .alertsWhomItStarts && isAlert
          || activity?.resolveStart(job, isAlert: isAlert, &members[device], now: now) == .send
        if isOurs && !isKilled { messages.append(.start(start)) }
      }
    case .revise(let job, let isEnd):
      let revised: ActivityState.Revised
      do throws(ActivityRefusal) {
        revised = try ActivityState.revise(&activity, isEnd: isEnd, job: job, jobs: &jobs, now: now)
      } catch {
        return
      }
      if !isKilled { goOn(revised) }
    case .begin(let number):
      let revised = ActivityState.begin(&activity, number: number, now: now)
      if !isKilled { goOn(revised) }
    case .page(let push, let timestamp, let targets):
      for device in targets {
        var member = members[device]
        let resolved = activity?.resolve(push, &member, now: now)
        if mutant == .sendsOldRevisions, case .superseded = resolved, let token = member?.token.first {
          if !isKilled { grant(push, timestamp, device, token) }
          continue
        }
        members[device] = member
        if case .send(let token, _) = resolved, !isKilled { grant(push, timestamp, device, token[0]) }
      }
    case .registration(let device, let token, let at, let isCopy):
      let registered = ActivityState.register(&activity, &members[device], token: token, at: at, now: now)
      guard case .late(let revision, _) = registered else { return }
      note(revision)
      if mutant == .claimsOnce {
        let push = ActivityState.Push(revision: revision.number, isLate: true)
        _ = activity?.resolve(push, &members[device], now: now)
      }
      if isKilled || isCopy && chance(50) || mutant == .forgetsLateTokens { return }
      messages.append(
        .page(.init(revision: revision.number, isLate: true), timestamp: revision.timestamp, devices: [device]))
    case .push(let device, let token, let timestamp):
      guard devices[device].token == token, !devices[device].isSwiped else {
        messages.append(.gone(device: device, token: token, at: now))
        return
      }
      devices[device].shown = max(devices[device].shown, timestamp)
    case .gone(let device, let token, let at):
      _ = members[device]?.unregistered([token], at: at, now: now)
    case .start(let start):
      let hasReached = ends[start] ?? chance(70)
      ends[start] = hasReached
      if hasReached { reach(start) }
      messages.append(.startEnded(start, hasReached: hasReached))
    case .startEnded(let start, let hasReached):
      let isTold = hasReached && mutant != .freesWhomItStarted
      let isFree = members[start.device]?.startEnded(start.job, isAlert: start.isAlert, hasReached: isTold, now: now)
      if isFree == true { members[start.device] = nil }
    }
  }

  private mutating func reach(_ start: Start) {
    if start.isAlert {
      devices[start.device].alerts.insert(start.job)
    } else {
      devices[start.device].starts.insert(start.job)
      if !devices[start.device].isShown { appears(start.device) }
    }
  }

  private mutating func goOn(_ revised: ActivityState.Revised) {
    switch revised {
    case .begun(let revision):
      note(revision)
      let live = devices.indices.filter { members[$0]?.status == .live }
      messages.append(.page(.init(revision: revision.number), timestamp: revision.timestamp, devices: live))
    case .waits(let revision, _):
      if mutant == .repeatsTimestamps {
        let live = devices.indices.filter { members[$0]?.status == .live }
        messages.append(.page(.init(revision: revision.number), timestamp: revision.timestamp, devices: live))
        note(revision)
      } else {
        messages.append(.begin(number: revision.number))
      }
    case .superseded, .early:
      break
    }
  }

  /// This revision's timestamp goes out: it is newer than those before it, and nobody else's.
  private mutating func note(_ revision: ActivityRevision) {
    timestamps[revision.number] = revision.timestamp
    let isOrdered = timestamps.allSatisfy { number, timestamp in
      number == revision.number || (number < revision.number) == (timestamp < revision.timestamp)
    }
    if !isOrdered || timestamps.values.count(where: { $0 == revision.timestamp }) > 1 {
      faults.append(
        "revision \(revision.number) has the timestamp \(revision.timestamp) of another, or is out of order")
    }
  }

  private mutating func grant(_ push: ActivityState.Push, _ timestamp: Int64, _ device: Int, _ token: UInt8) {
    if push.revision < devices[device].granted[token] ?? 0 {
      faults.append("device \(device) is sent revision \(push.revision) after \(devices[device].granted[token] ?? 0)")
    }
    devices[device].granted[token] = push.revision
    messages.append(.push(device: device, token: token, timestamp: timestamp))
  }
}
