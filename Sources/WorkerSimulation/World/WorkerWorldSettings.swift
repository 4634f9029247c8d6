extension WorkerWorld {
  /// The contents and faults of a world.
  package struct Settings: Sendable {
    /// What ends as soon as a message is delivered to it: the worker, or its connection before a byte of the delivery arrives.
    package enum Holder: Sendable { case worker, connection }

    /// What is wrong with another tenant's APNs, or its results, until the faults end.
    package enum Trouble: CaseIterable, Sendable {
      /// It takes requests and answers none.
      case silent
      /// It answers after nine seconds.
      case slow
      /// It answers 503.
      case refusing
      case unreachable
      /// APNs is well. An analyst's queue of its outcomes is full, and refuses them.
      case fullResults
    }

    package var workers = 2
    package var lanes = 2
    package var jobs = 200
    /// Each job is valid, published once, and for one device that APNs accepts pushes to.
    package var hasPlainJobs = false
    /// Requests for channels, and broadcasts to those channels.
    package var channelRequests = 0
    package var broadcasts = 0
    /// The first channel request crashes each worker that carries it out.
    package var hasChannelPoison = false
    /// What ends at each delivery of the first job in the queue of its class; nil: nothing.
    package var firstJobEnds: Holder?
    /// Devices that register, as targets of jobs for audiences; 0: the world has no audiences.
    package var audienceDevices = 0
    package var audienceJobs = 0
    package var activities = 0
    /// An activity for more devices than this takes a broadcast channel, and some devices are too old for channels; nil: none takes one.
    package var channelAbove: Int?
    /// An activity's updates are published at about the same time, in any order, and numbered by their `sequence`.
    package var hasBursts = false
    /// Devices register for the first time at any time.
    package var registersThroughout = false
    /// Devices register field by field, in any order.
    package var registersInParts = false
    /// Ids of devices and users, and tags, that are equal only canonically: with `é` in one scalar, and in two.
    package var hasTwins = false
    /// A start of an activity has an end of its time, and comes again after it.
    package var repeatsStarts = false
    /// Another app, with the same ids of devices, users and activities.
    package var hasSecondApp = false
    /// Some activities end for some devices while they run.
    package var hasLeaves = false
    /// Of operators, about jobs for audiences: they cancel, pause and resume them.
    package var commands = 0
    /// Of operators, about the channels of activities, which live for longer then: they delete unused ones, and compare Redis with APNs. No
    /// other channels may be there.
    package var channelCommands = 0
    /// When the faults are over and what they did is, devices register again, and there are more jobs and activities.
    package var hasAftermath = false
    /// How long APNs refuses half of the requests, or answers late, nanoseconds; nil: only as other faults say.
    package var outageNanoseconds: Int64?
    /// Messages with forged headers, properties and bodies.
    package var forgedMessages = 0
    package var prefetch = 40
    /// The first worker runs until its queues are empty, and is then started again.
    package var worksUntilEmpty = false
    /// Some jobs are too large for workers to read; some of these also to be copied to the dead letters.
    package var hasOversizedJobs = false
    /// Some jobs are older than the maximum age, and some are for a device that registered again.
    package var hasHistory = false
    /// Every second job belongs to a campaign of another app. APNs does not know most of its device tokens.
    package var hasCampaign = false
    /// Of a tenant with its own credential and pool; nil: there is none.
    package var trouble: Trouble?
    /// Jobs of that tenant, most of them at once.
    package var stuckJobs = 0
    /// Jobs of another tenant, all the time, which must not wait for those.
    package var punctualJobs = 0
    /// Jobs that replace others by their collapse id, several at about the same time.
    package var rivalJobs = 0
    /// Jobs that RabbitMQ may give up: their messages may wait for a moment only, or their routing key is no class.
    package var fleetingJobs = 0
    /// 1: a single Redis. More: the nodes of a cluster.
    package var redisNodes = 1
    /// A Redis with a replica and two Sentinels. Then `redisNodes` is 1.
    package var hasSentinels = false
    package var clocksDriftByHours = false
    /// How far Redis' clock is ahead of all others, from the start.
    package var redisErrorMilliseconds: Int64 = 0
    /// How far the second worker's clock is ahead of all others, always.
    package var clockErrorMilliseconds: Int64 = 0
    /// Most killed workers die within a turn, after part of their output.
    package var killsAtAnyByte = false
    /// The time over which jobs are published.
    package var productionMilliseconds: Int64 = 5_000
    package var network = SimulatedNetwork.Settings()
    package var rabbitmq = SimulatedRabbitMQ.Faults()
    /// The kinds of faults; each fault's kind is drawn from them.
    package var faults: [WorkerFault] = []
    package var faultCount = 0
    /// The time in which faults happen. After it, all work must come to an end.
    package var stormMilliseconds: Int64 = 30_000
    /// The time for that, after which the audit reports what still waits.
    package var restMilliseconds: Int64 = 1_800_000

    package init() {}
  }
}
