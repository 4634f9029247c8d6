import APNsSimulator
import PushCore
import PushIO
import TestSupport
import Testing

/// Simulated devices behind a running simulator: pushes over HTTP/2, the control port, registrations to a webhook.
@Suite(.serialized, .timeLimit(.minutes(2)))
struct SimulatorDeviceTests {
  private static let topic = SimulatorRequests.app + ".push-type.liveactivity"
  private static let timestamp = SimulatorRequests.start.unixSeconds

  private struct World {
    let simulator: Simulator
    let client: SimulatorClient
    let manager: SimulatorClient
    let controlPort: UInt16

    func control(_ method: String, _ path: String, _ body: String = "") throws -> (status: Int, json: JSONValue?) {
      let answer = try #require(LoopbackHTTP.request(method, path, port: controlPort, body: body))
      return (answer.status, JSONValue(Array(answer.body.utf8)))
    }

    /// The status, and behind it the reason of a refusal.
    func push(_ token: String, _ aps: String, topic: String = SimulatorDeviceTests.topic) -> String {
      let request = SimulatorRequests.device(
        ["authorization": nil, "apns-id": nil, "apns-topic": topic, "apns-push-type": "liveactivity"],
        path: "/3/device/" + token, payload: #"{"aps":{\#(aps)}}"#)
      guard let answer = client.ask(request) else { return "no answer" }
      let reason = JSONValue(Array(answer.body.utf8))?["reason"]?.string
      return reason.map { "\(answer.status) \($0)" } ?? "\(answer.status)"
    }

    func start(_ token: String, id: String = "ride-17", more: String = "") -> String {
      push(
        token,
        #""timestamp":\#(SimulatorDeviceTests.timestamp),"event":"start","content-state":{"eta":9},"#
          + #""attributes-type":"Ride","attributes":{"activityId":"\#(id)"},"alert":{"title":"A","body":"B"}\#(more)"#)
    }

    func update(_ token: String, _ later: Int64, event: String = "update", more: String = "") -> String {
      push(
        token,
        #""timestamp":\#(SimulatorDeviceTests.timestamp + later),"event":"\#(event)","content-state":{"eta":\#(later)}\#(more)"#
      )
    }

    /// The update token of the first activity, once it is registered.
    func updateToken() throws -> String {
      let isThere = simulator.wait(timeoutMilliseconds: 5000, untilActivities: { $0.first?.updateToken != nil })
      #expect(isThere)
      return try #require(simulator.activities.first?.updateToken)
    }
  }

  private func world(_ change: (inout SimulatorOptions) -> Void = { _ in }) throws -> World {
    var options = SimulatorOptions()
    options.checksCredentials = false
    options.controlPort = 0
    options.registerAfterMilliseconds = 1
    change(&options)
    let simulator = try Simulator(options)
    let ports = try simulator.start()
    return World(
      simulator: simulator, client: try SimulatorClient(ports.port),
      manager: try SimulatorClient(try #require(ports.managePort)), controlPort: try #require(ports.controlPort))
  }

  @Test func fromStartToDismissal() throws {
    let world = try world()
    defer { world.simulator.stop() }
    #expect(world.start("80AA0001") == "200")
    let token = try world.updateToken()
    #expect(world.update(token, 1) == "200")
    #expect(world.update(token, 1) == "200", "APNs does not look at timestamps")
    #expect(world.push(token, #""timestamp":1,"event":"update""#) == "400 BadRequestPayload")
    #expect(world.update(token, 2, event: "end", more: #","dismissal-date":1"#) == "200")
    #expect(world.update(token, 3) == "410 Unregistered")
    let activity = try #require(world.simulator.activities.first)
    #expect(activity.state == .dismissed && activity.cause == .end && activity.contentState == #"{"eta":2}"#)
    #expect(activity.updates == 2 && activity.ignored == 1 && activity.startToken == "80aa0001")
    let counts = world.simulator.ledger.activities
    #expect(counts.started == 1 && counts.displayed == 2 && counts.ignored == 1 && counts.ended == 1)
    #expect(counts.registrations == 2, "the token, and that it is over")
  }

  @Test func activitiesAtTheControlPort() throws {
    let world = try world()
    defer { world.simulator.stop() }
    #expect(try world.control("POST", "/devices", "80AA0001 device=hwid-1").status == 200)
    #expect(world.start("80aa0001", id: "a b,c", more: #","stale-date":1"#) == "200")
    let token = try world.updateToken()
    var answer = try world.control("GET", "/activities")
    let shown = try #require(answer.json?["activities"]?.array?.first)
    #expect(shown["device"]?.string == "hwid-1")
    #expect(shown["id"]?.string == "a b,c")
    #expect(shown["state"]?.string == "stale")
    #expect(shown["cause"] == .null)
    #expect(shown["content_state"] == .object(["eta": .number(9, isInteger: true)]))
    #expect(shown["attributes"] == .object(["activityId": .string("a b,c")]))
    #expect(shown["update_token"]?.string == token)
    #expect(shown["stale"]?.integer == 1)
    #expect(answer.json?["counts"]?["started"]?.integer == 1)

    #expect(try world.control("POST", "/activities", "swipe hwid-2 a b,c").status == 404)
    #expect(try world.control("POST", "/activities", "swipe a").status == 400)
    answer = try world.control("POST", "/activities", "swipe hwid-1 a b,c")
    #expect(answer.json?["activities"]?.array?.first?["cause"]?.string == "swiped")
    #expect(world.update(token, 1) == "410 Unregistered")
    #expect(try world.control("GET", "/counters").json?["activities"]?["ended"]?.integer == 1)

    #expect(try world.control("POST", "/devices", "80AA0001 ok").status == 200)
    #expect(world.start("80aa0001", id: "next") == "200")
    #expect(world.simulator.activities.last?.device == "device-80aa0001")
    #expect(try world.control("DELETE", "/ledger").json?["activities"]?["started"]?.integer == 0)
    #expect(world.simulator.activities.count == 2)
    #expect(try world.control("DELETE", "/activities").json?["activities"] == .array([]))
    for line in ["80AA0001 device=", "80AA0001 device=" + String(repeating: "x", count: 129)] {
      #expect(try world.control("POST", "/devices", line).status == 400)
    }
  }

  @Test func theClockEndsActivities() throws {
    let world = try world()
    defer { world.simulator.stop() }
    #expect(world.start("80aa0001") == "200")
    let token = try world.updateToken()
    world.simulator.setClock(offsetSeconds: 8 * 3600 + 1)
    #expect(
      world.simulator.wait(timeoutMilliseconds: 5000, untilActivities: { $0.first?.cause == .expired }))
    #expect(world.update(token, 100_000) == "200")
    #expect(world.simulator.activities.first?.late == 1)
    world.simulator.setClock(offsetSeconds: 12 * 3600 + 2)
    #expect(world.update(token, 100_001) == "410 Unregistered")
  }

  @Test func prefixesOfStartTokens() throws {
    let world = try world()
    defer { world.simulator.stop() }
    for prefix in ["ac71", "ac72", "ac73", "ac74", "ac75", "80aa"] {
      #expect(world.start(prefix + "0001", id: prefix) == "200")
    }
    let hasHappened = world.simulator.wait(
      timeoutMilliseconds: 10_000,
      untilActivities: { activities in
        let byID = Dictionary(uniqueKeysWithValues: activities.map { ($0.id ?? "", $0) })
        return byID["ac71"]?.updateToken != nil && byID["ac74"]?.cause == .swiped && byID["80aa"]?.updateToken != nil
      })
    #expect(hasHappened)
    #expect(world.simulator.activities.map(\.id) == ["ac71", "ac72", "ac74", "ac75", "80aa"], "ac73 is never shown")
    #expect(world.simulator.activities.first { $0.id == "ac72" }?.updateToken == nil)
    #expect(world.simulator.ledger.activities.lost == 1)
    // One for each of four devices, one more of ac75, one word of ac74.
    #expect(world.simulator.ledger.activities.registrations == 6)
  }

  @Test func faultsMeetLiveActivitiesAlone() throws {
    let world = try world()
    defer { world.simulator.stop() }
    _ = try world.simulator.add(fault: "times=1,reorder")
    let alert = SimulatorRequests.device(["authorization": nil])
    #expect(world.client.ask(alert)?.status == 200)
    #expect(world.start("80aa0001") == "200", "waits for the next one, or two seconds")
    #expect(world.simulator.activities.isEmpty)
    #expect(world.simulator.wait(timeoutMilliseconds: 5000, untilActivities: { $0.count == 1 }))
    let token = try world.updateToken()
    world.simulator.removeAllFaults()
    _ = try world.simulator.add(fault: "times=1,reorder")
    #expect(world.update(token, 1) == "200")
    #expect(world.update(token, 2) == "200")
    let activity = try #require(world.simulator.activities.first)
    #expect(activity.contentState == #"{"eta":2}"# && activity.ignored == 1)
  }

  @Test func whatAFaultRefusesReachesNoDevice() throws {
    let world = try world()
    defer { world.simulator.stop() }
    let refusal = try world.simulator.add(fault: "status=503,reason=ServiceUnavailable")
    #expect(world.start("80aa0001") == "503 ServiceUnavailable")
    #expect(world.simulator.activities.isEmpty)
    world.simulator.remove(fault: refusal)
    // Accepted, and the answer lost.
    _ = try world.simulator.add(fault: "times=1,reset=8,processed")
    #expect(world.start("80aa0001") == "no answer")
    #expect(world.simulator.activities.count == 1)
  }

  @Test func channelsReachTheirFollowers() throws {
    let world = try world()
    defer { world.simulator.stop() }
    let channel = try #require(world.manager.ask(SimulatorRequests.channel(["authorization": nil]))).channel
    for token in ["80aa0001", "80aa0002"] {
      #expect(world.start(token, more: #","input-push-channel":"\#(channel)""#) == "200")
    }
    let broadcast = SimulatorRequests.broadcast(
      ["authorization": nil, "apns-channel-id": channel],
      payload: #"{"aps":{"timestamp":\#(Self.timestamp + 1),"event":"update","content-state":{"eta":1}}}"#)
    #expect(world.client.ask(broadcast)?.status == 200)
    #expect(world.simulator.activities.map(\.contentState) == [#"{"eta":1}"#, #"{"eta":1}"#])
    #expect(world.simulator.activities.allSatisfy { $0.updateToken == nil && $0.channel == channel })
  }

  @Test func theFastModePlaysNoDevices() throws {
    let world = try world { $0.isFast = true }
    defer { world.simulator.stop() }
    #expect(world.start("80aa0001") == "200")
    #expect(world.simulator.activities.isEmpty)
  }

  // MARK: - The webhook

  @Test func registersAtAWebhook() throws {
    let webhook = try WebhookServer()
    defer { webhook.stop() }
    let world = try world { $0.registrations = try? .webhook(webhook.url) }
    defer { world.simulator.stop() }
    #expect(world.start("80aa0001") == "200")
    let token = try world.updateToken()
    #expect(world.simulator.wait(timeoutMilliseconds: 5000) { $0.activities.delivered == 1 })
    world.simulator.swipe(activity: "ride-17", device: "device-80aa0001")
    #expect(world.simulator.wait(timeoutMilliseconds: 5000) { $0.activities.delivered == 2 })
    let bodies = webhook.bodies.map { JSONValue(Array($0.utf8)) }
    #expect(bodies.map { $0?["token"]?.string } == [token, ""])
    #expect(bodies.allSatisfy { $0?["kind"]?.string == "activity" && $0?["activity"]?.string == "ride-17" })
    let request = try #require(webhook.requests.first)
    #expect(request.hasPrefix("POST /hook?key=1 HTTP/1.1\r\nHost: 127.0.0.1:\(webhook.port)\r\n"))
    #expect(request.contains("Content-Type: application/json\r\n"))
    #expect(world.simulator.ledger.activities.waiting == 0)
  }

  @Test func aWebhookThatFailsIsAskedAgain() throws {
    let webhook = try WebhookServer(["", "HTTP/1.1 503 Busy\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"])
    defer { webhook.stop() }
    let world = try world { $0.registrations = try? .webhook(webhook.url) }
    defer { world.simulator.stop() }
    #expect(world.start("80aa0001") == "200")
    #expect(world.simulator.wait(timeoutMilliseconds: 10_000) { $0.activities.delivered == 1 })
    #expect(webhook.bodies.count == 3 && Set(webhook.bodies).count == 1)
    let counts = world.simulator.ledger.activities
    #expect(counts.repeated == 2 && counts.failed == 0 && counts.lastFailure == "the webhook answered 503")
  }

  @Test(arguments: ["HTTP/1.1 400 Bad Request\r\n\r\n", "+OK hello\r\n"])
  func aWebhookThatRefusesIsNot(_ answer: String) throws {
    let webhook = try WebhookServer([answer])
    defer { webhook.stop() }
    let world = try world { $0.registrations = try? .webhook(webhook.url) }
    defer { world.simulator.stop() }
    #expect(world.start("80aa0001") == "200")
    #expect(world.simulator.wait(timeoutMilliseconds: 5000) { $0.activities.failed == 1 })
    #expect(webhook.bodies.count == 1)
    #expect(world.simulator.ledger.activities.lastFailure?.hasPrefix("the webhook") == true)
  }

  @Test func manyAtOnce() throws {
    let webhook = try WebhookServer()
    defer { webhook.stop() }
    let world = try world { $0.registrations = try? .webhook(webhook.url) }
    defer { world.simulator.stop() }
    for index in 0..<200 { #expect(world.start("80aa0001", id: "a-\(index)") == "200") }
    #expect(world.simulator.wait(timeoutMilliseconds: 20_000) { $0.activities.delivered == 200 })
    #expect(Set(webhook.bodies).count == 200)
  }
}
