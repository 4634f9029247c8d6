import Foundation
import PushCore
import PushIO
import PushStores
import TestSupport
import Testing

/// Updates and ends of activities that are paused or cancelled, through a worker and real servers.
@Suite(.serialized, .timeLimit(.minutes(4)))
struct WorkerActivityCancelTests {
  /// Three devices, of which the first is live.
  private final class Ride {
    let world: WorkerWorld
    let registry: AudienceRegistry
    let activity: ActivityWorld
    private let activities: ActivityRegistry

    init(_ name: String) throws {
      let url = try RedisServer.shared().url
      world = try WorkerWorld(name, redisURL: url)
      registry = try AudienceRegistry(url: url, prefix: "\(world.prefix):")
      activity = ActivityWorld(world)
      activities = ActivityRegistry(loop: registry.loop, redis: registry.redis, prefix: "\(world.prefix):")
      for number in 0..<3 {
        var registration = DeviceRegistration(device: "d-\(number)")
        registration.osVersion = .set(OSVersion(major: 18))
        registration.startTokens = [.init(type: "*", token: [UInt8](repeating: UInt8(number + 1), count: 32))]
        _ = try registry.wait {
          registry.devices.register(registration, at: registry.loop.now.unixMilliseconds, in: registry.scope, then: $0)
        }
      }
    }

    func start(_ id: String, _ devices: String) throws {
      try activity.publish(id, #"{"devices":[\#(devices)]}"#, ActivityWorld.start, #""activity":"ride-17","#)
      #expect(try activity.end(of: id).outcome == "completed")
    }

    func update(_ id: String, eta: Int) throws {
      try activity.publish(
        id, #"{"activity":"ride-17"}"#, #"{"aps":{"event":"update","content-state":{"eta":\#(eta)}}}"#)
    }

    func end(_ id: String) throws {
      try activity.publish(id, #"{"activity":"ride-17"}"#, #"{"aps":{"event":"end","content-state":{"eta":0}}}"#)
    }

    /// Registers update tokens, each by its first byte, and waits until so many are live.
    func register(_ devices: [String: Int], live count: Int) throws {
      for (device, byte) in devices { try activity.register(device, "\(byte)50505050505050") }
      let id = try #require(ActivityID("ride-17"))
      let isLive = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 50) {
        let live = try? registry.wait { activities.live(id, in: registry.scope, after: nil, limit: 9, then: $0) }
        return live?.ordinals.count == count ? true : nil
      }
      #expect(isLive != nil)
    }

    func refuse(_ more: String = "") throws {
      try world.simulator.setFaults("\(more)status=503,reason=ServiceUnavailable")
    }

    /// Waits until the job has become pages, then gives a command.
    @discardableResult
    func order(_ command: String, _ id: String, sent: Int = 0) throws -> ChildProcess.Output {
      let isKnown = ChildProcess.poll(timeoutMilliseconds: 20_000, everyMilliseconds: 100) {
        let shown = try? world.herald(["jobs", "show", id, "--json"]).output
        return shown?.contains(#""expanded":1,"#) == true && shown?.contains(#""sent":\#(sent),"#) == true ? true : nil
      }
      #expect(isKnown != nil)
      return try world.herald(["jobs", command, id])
    }

    func isNeverTold(_ id: String, milliseconds: Int) -> Bool {
      let isTold: Bool? = ChildProcess.poll(timeoutMilliseconds: milliseconds, everyMilliseconds: 100) {
        (try? activity.isTold(id)) == true ? true : nil
      }
      return isTold == nil
    }
  }

  /// Whose token comes after the cancel, or came before it, is sent what was before; so is who counts as having the cancelled state.
  @Test func aCancelledUpdateReachesNoLateToken() throws {
    let ride = try Ride("cancel-update")
    let worker = try ride.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try ride.start("s1", #""d-0","d-1","d-2""#)
    try ride.register(["d-0": 51], live: 1)
    try ride.update("u1", eta: 1)
    #expect(try ride.activity.end(of: "u1").summary == ["devices": 1, "accepted": 1])
    try ride.refuse()
    try ride.update("u2", eta: 2)
    try ride.order("pause", "u2")
    try ride.register(["d-1": 52], live: 2)
    let cancelled = try ride.order("cancel", "u2")
    #expect(cancelled.status == 0, "\(cancelled)")
    try ride.world.simulator.clearFaults()
    let end = try ride.activity.end(of: "u2")
    #expect(end.summary == ["devices": 1, "cancelled": 1] && end.detail == nil, "\(end)")
    try ride.register(["d-2": 53], live: 3)
    for device in ["d-1", "d-2"] {
      let late = try ride.activity.end(of: "u1/late/\(device)")
      #expect(late.outcome == "accepted" && late.revision == 4, "\(late)")
    }
    try ride.update("u3", eta: 3)
    #expect(try ride.activity.end(of: "u3").summary == ["devices": 3, "accepted": 3])
    #expect(!ride.activity.outcomes.contains { $0.job?.hasPrefix("u2/") == true }, "nothing of it was sent")
  }

  @Test func aPausedUpdateReachesNoLateToken() throws {
    let ride = try Ride("pause-update")
    let worker = try ride.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try ride.start("s1", #""d-0","d-1""#)
    try ride.register(["d-0": 51], live: 1)
    try ride.refuse()
    try ride.update("u1", eta: 1)
    try ride.order("pause", "u1")
    try ride.world.simulator.clearFaults()
    try ride.register(["d-1": 52], live: 2)
    #expect(ride.isNeverTold("u1/late/d-1", milliseconds: 3_000), "it is paused")
    try ride.order("resume", "u1")
    #expect(try ride.activity.end(of: "u1/late/d-1").outcome == "accepted")
    #expect(try ride.activity.end(of: "u1").summary == ["devices": 1, "accepted": 1])
  }

  /// Some have it: it stays the newest, and its outcome says so.
  @Test func anUpdateThatMayHaveBeenSentStays() throws {
    let ride = try Ride("cancel-half")
    let worker = try ride.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try ride.start("s1", #""d-0","d-1","d-2""#)
    try ride.register(["d-0": 51, "d-1": 52], live: 2)
    try ride.refuse("prefix=52,")
    try ride.update("u1", eta: 1)
    try ride.order("cancel", "u1", sent: 1)
    let end = try ride.activity.end(of: "u1")
    #expect(end.summary == ["devices": 2, "accepted": 1, "cancelled": 1])
    #expect(end.detail == "the activity goes on from this state, which may have been sent", "\(end)")
    let shown = try ride.world.herald(["jobs", "show", "u1"]).output
    #expect(shown.contains("note         the activity goes on from this state, which may have been sent"), "\(shown)")
    try ride.world.simulator.clearFaults()
    try ride.register(["d-2": 53], live: 3)
    #expect(try ride.activity.end(of: "u1/late/d-2").outcome == "accepted")
  }

  /// An update that comes while nobody knows whether the end was sent waits for that.
  @Test func anActivityGoesOnAfterACancelledEnd() throws {
    let ride = try Ride("cancel-end")
    let worker = try ride.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try ride.start("s1", #""d-0","d-1""#)
    try ride.register(["d-0": 51, "d-1": 52], live: 2)
    try ride.refuse()
    try ride.end("e1")
    try ride.order("pause", "e1")
    try ride.order("cancel", "e1")
    try ride.update("u1", eta: 1)
    try ride.world.simulator.clearFaults()
    let end = try ride.activity.end(of: "e1")
    #expect(end.summary == ["devices": 2, "cancelled": 2] && end.detail == nil, "\(end)")
    let update = try ride.activity.end(of: "u1")
    #expect(update.summary == ["devices": 2, "accepted": 2], "\(update)")
    try ride.end("e2")
    #expect(try ride.activity.end(of: "e2").summary == ["devices": 2, "accepted": 2])
  }

  /// It goes on for them, with what they missed meanwhile.
  @Test func devicesStayAfterACancelledEndForThem() throws {
    let ride = try Ride("cancel-leave")
    let worker = try ride.world.startWorker()
    defer { _ = worker.drain(seconds: 30) }
    try ride.start("s1", #""d-0","d-1""#)
    try ride.register(["d-0": 51, "d-1": 52], live: 2)
    try ride.refuse("prefix=52,")
    try ride.activity.publish(
      "l1", #"{"devices":["d-1"]}"#, #"{"aps":{"event":"end","content-state":{"eta":0}}}"#, #""activity":"ride-17","#)
    try ride.order("pause", "l1")
    try ride.update("u1", eta: 1)
    #expect(try ride.activity.end(of: "u1").summary?["accepted"] == 1)
    try ride.order("cancel", "l1")
    try ride.world.simulator.clearFaults()
    #expect(try ride.activity.end(of: "l1").summary == ["devices": 1, "cancelled": 1])
    #expect(try ride.activity.end(of: "u1/late/d-1").outcome == "accepted")
    try ride.update("u2", eta: 2)
    #expect(try ride.activity.end(of: "u2").summary == ["devices": 2, "accepted": 2])
  }

  @Test func aCancelledBroadcastSaysSoAndIsNotRepeated() throws {
    let ride = try Ride("cancel-broadcast")
    let worker = try ride.world.startWorker(
      configuration: ride.world.configuration(furtherLines: "activities: {channel_above: 1}"))
    defer { _ = worker.drain(seconds: 30) }
    try ride.start("s1", #""d-0","d-1""#)
    try ride.update("u1", eta: 1)
    #expect(try ride.activity.end(of: "u1/channel").outcome == "accepted")
    try ride.refuse()
    try ride.update("u2", eta: 2)
    try ride.order("pause", "u2")
    try ride.order("cancel", "u2")
    try ride.world.simulator.clearFaults()
    let broadcast = try ride.activity.end(of: "u2/channel")
    #expect(broadcast.outcome == "throttled" && broadcast.detail == "its job was cancelled", "\(broadcast)")
    let end = try ride.activity.end(of: "u2")
    #expect(end.summary == ["devices": 0], "\(end)")
    #expect(end.detail == "the broadcast on the activity's channel was cancelled", "\(end)")
    func again(after job: String) -> String {
      "u1/channel/\(Hex.text(ActivityJobs.word(of: job.utf8.span), count: 16))"
    }
    // The cancelled one may have overtaken it.
    #expect(try ride.activity.end(of: again(after: "u2")).outcome == "accepted")
    try ride.start("s2", #""d-2""#)
    let repeated = try ride.activity.end(of: again(after: "s2"))
    #expect(repeated.outcome == "accepted" && repeated.revision == 4, "\(repeated)")
  }
}
