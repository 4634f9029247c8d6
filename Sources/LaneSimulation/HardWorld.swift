import PushCore

/// A named world: its faults, and how it is built.
package enum HardWorld: String, CaseIterable, Sendable {
  /// All faults.
  case everything
  /// Consumers that come and go while APNs takes its time.
  case consumers
  /// Streams that stay silent beside others that are answered.
  case streams
  /// Producers that publish the same job twice, at once and later.
  case repetitions
  /// Jobs that are hours old when they come, in worlds with a short maximum age.
  case ages
  /// Devices that registered again after APNs had reported them gone.
  case registrations
  /// Requests that fail, again and again.
  case retries
  /// Limits that change while the admission store hangs.
  case reloads
  /// Pages of audiences, with a registry that is away at times.
  case pages

  package var faults: Faults {
    var faults = Faults()
    switch self {
    case .everything: return .all
    case .consumers:
      faults.consumersComeAndGo = 4
      faults.apnsSlow = 10
    case .streams:
      faults.streamSilent = 60
    case .repetitions:
      faults.publishedTwice = 400
      faults.apnsSlow = 5
    case .ages:
      faults.hoursOld = 200
      faults.consumerLost = 10
    case .registrations:
      faults.unregisteredBefore = 700
      faults.unregistered = 100
    case .retries:
      faults.serverError = 300
    case .reloads:
      faults.limitsReloaded = 40
      faults.memoryFrozen = 20
      faults.memoryAway = 10
      faults.overRate = 100
    case .pages:
      faults = .many
      faults.registryAway = 10
      faults.deviceForgotten = 10
      faults.publishedTwice = 200
    }
    return faults
  }

  /// - Parameter seed: draws what differs between worlds: tables, streams, workers and the maximum age of jobs.
  package func settings(seed: UInt64) -> WorldSettings {
    var random = SeededRandom(seed: seed ^ 0x6861_7264)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    var settings = WorldSettings()
    settings.hasVariedJobs = true
    settings.workers = 1 + pick(2)
    settings.prefetch = [8, 20, 40, 80][pick(4)]
    settings.streams = [12, 100, 1000][pick(3)]
    settings.connections = 1 + pick(4)
    settings.timeoutMilliseconds = [2_000, 10_000][pick(2)]
    settings.limits = SimulatedLimits.choices[pick(UInt64(SimulatedLimits.choices.count))]
    let ages: [Int64] = [60, 600, 3600]
    settings.retry =
      [
        RetryPolicy(ageMaximumSeconds: ages[pick(3)]),
        RetryPolicy(delaysSeconds: [1, 600], attemptsMaximum: 2, ageMaximumSeconds: 3600),
        RetryPolicy(delaysSeconds: [1, 2, 4], attemptsMaximum: 4, ageMaximumSeconds: ages[pick(3)]),
      ][pick(3)]
    switch self {
    case .consumers:
      // More than the lane's tables hold.
      settings.workers = 1
      settings.jobs = 300
      settings.prefetch = 80
      settings.streams = 1000
      settings.timeoutMilliseconds = 10_000
      settings.limits = .none
    case .ages: settings.retry = RetryPolicy(ageMaximumSeconds: 600)
    case .registrations, .repetitions, .streams:
      settings.limits = .none
      settings.streams = 100
    case .pages:
      settings.pagesPerMille = 700
      settings.limits = .none
    case .everything, .retries, .reloads: break
    }
    return settings
  }

  /// The command that repeats the run.
  package func command(seed: UInt64) -> String {
    "herald-bench simulate --world \(rawValue) --first \(seed) --seeds 1"
  }
}

extension SimulatedRun {
  /// A run in one of these worlds.
  package init(_ hard: HardWorld, seed: UInt64, makeBroker: @escaping (SimulatedWorld) -> RunBroker) {
    self.init(seed: seed, faults: hard.faults, settings: hard.settings(seed: seed), makeBroker: makeBroker)
  }
}
