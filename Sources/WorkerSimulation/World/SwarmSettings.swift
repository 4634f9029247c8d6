import PushCore

extension WorkerWorld.Settings {
  /// The world of this seed. Each has another set of faults, so that rare pairs meet, and other sizes.
  package static func swarm(seed: UInt64) -> WorkerWorld.Settings {
    var random = SeededRandom(seed: seed ^ 0x7377_6172_6D00_0000)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    var settings = WorkerWorld.Settings()
    // Data loss in Redis excuses many errors, so few worlds have it.
    let families = WorkerFault.Family.allCases.filter { pick($0 == .memory ? 5 : 2) == 0 }
    settings.faults = WorkerFault.allCases.filter {
      !WorkerFault.laterKinds.contains($0) && families.contains($0.family) && pick(2) == 0
    }
    settings.faultCount = pick(80)
    settings.workers = 1 + pick(3)
    settings.lanes = 1 + pick(2)
    settings.prefetch = [4, 20, 40, 200][pick(4)]
    settings.redisNodes = pick(4) == 0 ? 3 : 1
    settings.network.splits = [0, 50, 300][pick(3)]
    settings.network.latency = [10_000...50_000, 50_000...2_000_000, 1_000_000...60_000_000][pick(3)]
    settings.network.bufferBytes = [4096, 65_536, 1 << 20][pick(3)]
    if pick(3) == 0 { settings.rabbitmq.confirmSpreadNanoseconds = 500_000_000 }
    if pick(3) == 0 { settings.rabbitmq.confirmLate = 50 }
    if pick(3) == 0 { settings.rabbitmq.confirmsSingle = 500 }
    if pick(3) == 0 { settings.rabbitmq.publishRefused = 20 }
    if pick(4) == 0 { settings.rabbitmq.confirmDropped = 5 }
    if pick(3) == 0 { settings.rabbitmq.handedOnTwice = 300 }
    if pick(4) == 0 { settings.rabbitmq.consumeAnsweredLate = 300 }
    // Lower seeds identify known bugs, so their worlds must not change. Each generation adds to the ones before.
    if seed >= 1000 { settings.addSecondGeneration(seed: seed) }
    if seed >= 4000 { settings.addThirdGeneration(seed: seed) }
    if seed >= 500_000 { settings.addFourthGeneration(seed: seed) }
    if seed >= 10_000_000 { settings.addAudiences(seed: seed) }
    if seed >= 20_000_000 { settings.addActivityChannels(seed: seed) }
    if seed >= 40_000_000 { settings.addLeaves(seed: seed) }
    if seed >= 100_000_000 {
      settings.addRewinds(seed: seed)
      settings.addNeighbours(seed: seed)
      settings.addRivals(seed: seed)
    }
    if seed >= 600_000_000 { settings.addFleeting(seed: seed) }
    if seed >= 700_000_000 { settings.addForgeriesOrStarts(seed: seed) }
    if seed >= 700_100_000 { settings.addOperators(seed: seed) }
    if seed >= 120_000_000, settings.trouble != nil { settings.addSmallPrefetch(seed: seed) }
    return settings
  }

  /// Adds history, drifting clocks, channels, Sentinels and more broker faults.
  private mutating func addSecondGeneration(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x7370_6963_6500_0000)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    hasHistory = pick(2) == 0
    clocksDriftByHours = pick(3) == 0
    killsAtAnyByte = pick(2) == 0
    if pick(4) == 0 { network.bytesPerSecond = [20_000, 200_000, 2_000_000][pick(3)] }
    if pick(3) == 0 { productionMilliseconds = stormMilliseconds }
    if pick(4) == 0 {
      channelRequests = 20
      broadcasts = 20
    }
    if pick(5) == 0 {
      redisNodes = 1
      hasSentinels = true
      // Only the Sentinels decide which of the two is the primary.
      faults.removeAll { $0 == .readOnlyRedis || $0 == .moveSlots }
      if pick(2) == 0 { faults += [.failOverRedis, .failOverRedis] }
    }
    if pick(4) == 0 { rabbitmq.handedOnLate = 300 }
    if pick(4) == 0 { rabbitmq.unconfirmedLost = 300 }
    if pick(4) == 0 { rabbitmq.acknowledgementLost = 300 }
    if pick(4) == 0 { rabbitmq.unavailableRefused = 300 }
    if pick(6) == 0 { faults.append(.revokeKey) }
    hasCampaign = pick(6) == 0
  }

  /// Adds changing limits and poison channel requests.
  private mutating func addThirdGeneration(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6F64_6465_7374_0000)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    if pick(6) == 0 { faults += [.fewerLimits, .fewerLimits] }
    if channelRequests > 0 { hasChannelPoison = pick(3) == 0 }
  }

  /// Adds revoked credentials, workers that run until their queues are empty, and oversized jobs.
  private mutating func addFourthGeneration(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6C61_7374_0000_0000)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    if pick(4) == 0 { faults += [.revokeCredential, .revokeCredential] }
    worksUntilEmpty = pick(6) == 0
    hasOversizedJobs = pick(3) == 0 && network.carriesLargeBodies
  }

  /// Adds devices that register, jobs for them, and activities.
  private mutating func addAudiences(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6175_6469_656E_6365)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    audienceDevices = [6, 20, 40][pick(3)]
    audienceJobs = 4 + pick(20)
    activities = pick(4)
    // Other worlds test jobs for single devices. A Redis that stores devices must not evict keys.
    jobs = 40
    faults.removeAll { $0 == .evictRedis }
  }

  /// Adds activities on broadcast channels.
  private mutating func addActivityChannels(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6368_616E_6E65_6C73)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    channelAbove = [0, 2, 6][pick(3)]
    activities = 1 + pick(3)
    audienceDevices = max(20, audienceDevices)
    audienceJobs = min(8, audienceJobs)
    if pick(8) == 0 { faults.append(.deleteChannel) }
  }

  /// Adds Redis that is rewound, workers that hang, and devices that register while jobs for others wait for their retry.
  private mutating func addRewinds(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x7265_7769_6E64_0000)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    registersThroughout = true
    audienceDevices = 40
    audienceJobs = 10 + pick(20)
    productionMilliseconds = [5_000, 15_000][pick(2)]
    if pick(3) > 0 { faults += [.rewindRedis, .rewindRedis, .rewindRedis, .failAPNs, .failAPNs, .throttleAPNs] }
    if pick(4) == 0 { faults.append(.emptyRedis) }
    if pick(2) == 0 { faults += [.pauseWorker, .pauseWorker] }
    if pick(2) == 0 {
      hasBursts = true
      activities = 1 + pick(4)
      lanes = 1 + pick(3)
    }
    faultCount = max(20, faultCount)
  }

  /// Adds registrations in parts, twins, a second app, wrong clocks and tenants in trouble.
  private mutating func addNeighbours(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6E65_6967_6862_6F75)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    registersInParts = pick(3) == 0
    hasTwins = pick(3) == 0
    hasSecondApp = pick(4) == 0
    if hasSecondApp {
      channelAbove = nil
      audienceDevices = 20
    }
    if pick(6) == 0 { addClockError(pick(2) == 0 ? 3_600_000 : -3_600_000) }
    if pick(6) == 0 {
      addTrouble(
        Trouble.allCases[pick(4)], prefetch: [400, 1_000][pick(2)], lanes: 1 + pick(2), faultCount: max(0, pick(8) - 4))
    }
  }

  /// Jobs that replace each other, beside what else there is.
  private mutating func addRivals(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x7269_7661_6C73_0001)
    guard trouble == nil, random.next() % 2 == 0 else { return }
    rivalJobs = 10 + Int(random.next() % 60)
  }

  /// Jobs that RabbitMQ may give up, beside what else there is.
  private mutating func addFleeting(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x666C_6565_7469_6E68)
    guard trouble == nil, random.next() % 2 == 0 else { return }
    fleetingJobs = 5 + Int(random.next() % 30)
  }

  /// Messages that no honest producer publishes, or starts that come again.
  private mutating func addForgeriesOrStarts(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x666F_7267_6564_0000)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    guard trouble == nil else { return }
    if pick(4) == 0 {
      forgedMessages = 20 + pick(60)
    } else if pick(2) == 0 {
      repeatsStarts = true
      activities = 1 + pick(4)
      faults += [.failAPNs, .throttleAPNs, .refuseStreams, .slowAPNs]
      faultCount = max(20, faultCount)
    }
  }

  /// Operators beside running jobs and activities, an APNs that is in trouble for minutes, and what comes after all faults.
  private mutating func addOperators(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6F70_6572_6174_6F73)
    func pick(_ bound: UInt64) -> Int { Int(random.next() % bound) }
    guard trouble == nil, forgedMessages == 0 else { return }
    commands = [0, 5, 15, 40][pick(4)]
    hasAftermath = pick(2) == 0
    if pick(4) == 0 { outageNanoseconds = Int64(60 + pick(120)) * 1_000_000_000 }
    if channelAbove != nil, channelRequests == 0, pick(4) == 0 {
      channelCommands = 2 + pick(3)
      hasAftermath = true
    }
  }

  /// One of the workers has a wrong clock from its start on, and cannot miss it: the others, Redis and APNs are right and there.
  private mutating func addClockError(_ milliseconds: Int64) {
    clockErrorMilliseconds = milliseconds
    workers = max(2, workers)
    faults = faults.filter { $0.family == .apns || $0.family == .rabbitmq }
    faults.removeAll { $0 == .revokeKey || $0 == .expireToken }
  }

  /// A tenant whose APNs is in trouble, and another one that must not notice.
  package mutating func addTrouble(_ trouble: Trouble, prefetch: Int, lanes: Int, faultCount: Int) {
    self.trouble = trouble
    self.prefetch = prefetch
    self.lanes = lanes
    self.faultCount = faultCount
    stuckJobs = 2 * prefetch
    punctualJobs = 200
    jobs = 0
    audienceDevices = 0
    activities = 0
    channelRequests = 0
    broadcasts = 0
    channelAbove = nil
    worksUntilEmpty = false
    clockErrorMilliseconds = 0
    redisNodes = 1
    hasSentinels = false
    stormMilliseconds = faultCount == 0 ? 40_000 : 120_000
    network.latency = 10_000...500_000
    network.bufferBytes = 1 << 20
    network.bytesPerSecond = nil
    rabbitmq = SimulatedRabbitMQ.Faults()
  }

  /// Makes the prefetch of some worlds with a tenant in trouble small.
  private mutating func addSmallPrefetch(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x7072_6566_6574_6368)
    prefetch = [64, 200, prefetch][Int(random.next() % 3)]
    stuckJobs = 2 * prefetch
  }

  /// Adds activities that end for some devices, half of them without channels.
  private mutating func addLeaves(seed: UInt64) {
    var random = SeededRandom(seed: seed ^ 0x6C65_6176_6573_0000)
    hasLeaves = true
    if random.next() % 2 == 0 { channelAbove = nil }
  }
}
