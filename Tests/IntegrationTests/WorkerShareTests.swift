import Foundation
import TestSupport
import Testing

/// 12,000 jobs for an APNs that does not answer, or not as fast, in front of others: real processes.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct WorkerShareTests {
  enum Trouble: CaseIterable {
    case silent, slow, refusing, unreachable
    /// 200 a second, and 300 on each new connection.
    case crowded, stalling

    static let stuck: [Trouble] = [.silent, .slow, .refusing, .unreachable]

    /// nil: nothing listens.
    var faults: String? {
      switch self {
      case .silent: "silence"
      case .slow: "latency=9000"
      case .refusing: "status=503,reason=ServiceUnavailable"
      case .unreachable: nil
      case .crowded: "latency=200\nstreams=5"
      case .stalling: "withhold-window"
      }
    }

    /// A simulator with this trouble as the sandbox of the world's APNs, and the worker's configuration.
    func sandbox(beside world: WorkerWorld) throws -> (SimulatorProcess, configuration: String) {
      let sandbox = try SimulatorProcess()
      sandbox.stop()
      if let faults {
        // It takes any key from now on.
        try sandbox.start()
        try sandbox.setFaults(faults)
      }
      try world.folder.write(
        try [world.simulator.authorityFile, sandbox.authorityFile]
          .map { try String(contentsOfFile: $0, encoding: .utf8) }.joined(),
        to: "ca.pem")
      let configuration = world.configuration()
        .replacing("environments: [production]", with: "environments: [production, sandbox]")
        .replacing(world.simulator.authorityFile, with: world.folder.path("ca.pem"))
        .replacing(
          "request_timeout_ms: 5000",
          with: """
            request_timeout_ms: 10000
              sandbox: "https://127.0.0.1:\(sandbox.port)"
              manage_sandbox: "https://127.0.0.1:\(sandbox.managePort)"
            """)
      return (sandbox, configuration)
    }
  }

  @Test(arguments: zip(Trouble.allCases, [1, 2, 2, 1, 1, 1]))
  func jobsForAStuckPoolHoldUpNoOther(trouble: Trouble, lanes: Int) throws {
    var options = WorkerWorld.Options()
    options.prefetch = 2_000
    options.lanes = lanes
    let world = try WorkerWorld("share", options: options)
    let (_, usual) = try trouble.sandbox(beside: world)
    let configuration =
      usual
      .replacing("delays_s: [1, 2]", with: "delays_s: [1, 5, 30, 120]")
    let count = 12_000
    let stuck = (0..<count).map {
      world.job("stuck-\($0)", number: $0).replacing("\"to\":", with: "\"environment\":\"sandbox\",\"to\":")
    }
    let others = (0..<100).map { world.job("other-\($0)", number: $0) }
    let enqueued = try world.herald(["enqueue"], input: (stuck + others).joined(separator: "\n") + "\n")
    #expect(enqueued.status == 0, "\(enqueued.errors)")

    let worker = try world.startWorker(configuration: configuration)
    #expect(world.waitUntilReady(), "\(worker.log)")
    let start = ContinuousClock.now
    // Without the rule: a minute and more. The time itself belongs to the machine.
    try world.waitForAccepted(100, seconds: 30)
    let first = ContinuousClock.now - start
    // What was put off comes back meanwhile.
    var longest = Duration.zero
    for number in 100..<110 {
      let published = ContinuousClock.now
      try world.publish(world.job("later-\(number)", number: number))
      try world.waitForAccepted(number + 1, seconds: 30)
      longest = max(longest, ContinuousClock.now - published)
    }
    print("\(count) jobs for an APNs that is \(trouble), \(lanes) lanes: others after \(first), later ones \(longest)")
    worker.child.kill()
  }
}
