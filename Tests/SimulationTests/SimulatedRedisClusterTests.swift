import Testing
import WorkerSimulation

@testable import PushLane

/// Nodes of a simulated cluster, its slots and its replicas; and Sentinels.
@Suite struct SimulatedRedisClusterTests {
  private let cluster: SimulatedRedisCluster
  private let talks: [SimulatedRedisTalk]

  init() {
    let settings = (0..<4).map { number in
      var settings = SimulatedRedisSettings()
      settings.host = "node-\(number)"
      settings.port = 7000 + UInt16(number)
      return settings
    }
    let cluster = SimulatedRedisCluster(settings: settings, masterCount: 3, seed: 1)
    self.cluster = cluster
    talks = cluster.nodes.enumerated().map { SimulatedRedisTalk($1, connection: $0) }
  }

  /// A key of the first node: with the tag `a0`, or the next tag that belongs to it.
  private func tag() -> (tag: String, slot: Int) {
    for number in 0..<100 {
      let slot = SimulatedRedisSlot.of(Array("a\(number)".utf8))
      if cluster.owner(of: slot) == 0 { return ("{a\(number)}", slot) }
    }
    return ("", 0)
  }

  @Test func keysAreServedByTheirOwners() {
    let (tag, slot) = tag()
    #expect(talks[0].say("SET \(tag) 1", "GET \(tag)") == "+OK $1 1")
    #expect(talks[1].say("GET \(tag)") == "-MOVED \(slot) node-0:7000")
    #expect(talks[3].say("GET \(tag)") == "-MOVED \(slot) node-0:7000", "a replica serves no keys")
    #expect(talks[0].say("MGET \(tag) {b}{c}d") == "-CROSSSLOT Keys in request don't hash to the same slot")
    #expect(talks[1].say("PING", "SELECT 1") == "+PONG -ERR SELECT is not allowed in cluster mode")
    let table = talks[2].say("CLUSTER SLOTS")
    #expect(table.hasPrefix("*3 *4 :0 :5461 *4 $6 node-0 :7000 $40 "))
    #expect(table.contains(" $6 node-3 :7003 ") && table.contains(" *3 :5462 :10922 *4 $6 node-1 :7001 "))
    #expect(talks[0].say("CLUSTER KEYSLOT \(tag)") == ":\(slot)")
  }

  @Test func aSlotMovesKeyByKey() {
    let (tag, slot) = tag()
    talks[0].say("SET \(tag)1 1", "SET \(tag)2 2")
    cluster.beginMove(of: slot, to: 1)
    #expect(talks[0].say("GET \(tag)1", "GET \(tag)3") == "$1 1 -ASK \(slot) node-1:7001")
    #expect(talks[0].say("MGET \(tag)1 \(tag)3") == "-TRYAGAIN Multiple keys request during rehashing of slot")
    #expect(talks[1].say("GET \(tag)1") == "-MOVED \(slot) node-0:7000", "without ASKING")
    #expect(talks[1].say("ASKING", "SET \(tag)3 3", "GET \(tag)3") == "+OK +OK -MOVED \(slot) node-0:7000", "once")
    #expect(cluster.moveKeys(of: slot, count: 1, now: 0) == 1)
    #expect(talks[0].say("GET \(tag)1", "GET \(tag)2") == "-ASK \(slot) node-1:7001 $1 2")
    cluster.endMove(of: slot, informing: [], now: 0)
    #expect(talks[0].say("GET \(tag)2") == "-MOVED \(slot) node-1:7001")
    #expect(talks[1].say("MGET \(tag)1 \(tag)2 \(tag)3") == "*3 $1 1 $1 2 $1 3")
    #expect(talks[2].say("GET \(tag)2") == "-MOVED \(slot) node-0:7000", "the third node does not know of the move")
    cluster.spread()
    #expect(talks[2].say("GET \(tag)2") == "-MOVED \(slot) node-1:7001")
  }

  /// A script that uses a key that it did not name, in a migrating slot, is refused that key only.
  @Test func aScriptFindsNoOtherKeysOfAMovingSlot() throws {
    let (tag, slot) = tag()
    let text = Array(RedisScript.admit.utf8)
    let far = Array(repeating: UInt8(255), count: 4)
    cluster.nodes[0].set(Array(tag.utf8), [209, 4] + far, now: 0)
    let name: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
    let settings = [3600.0, 21_600, 60, 2].flatMap { number in
      (0..<8).map { UInt8(truncatingIfNeeded: number.bitPattern >> UInt64(8 * $0)) }
    }
    let record: [UInt8] = [161, 11] + name + [0, 2, 2]
    let words =
      [Array("EVAL".utf8), text, [49], Array(tag.utf8)]
      + [[254] + name + [1, 0, 0, 0] + Array(repeating: 0, count: 8), settings]
    cluster.nodes[0].set(Array("\(tag):d:0102030405060708".utf8), record, now: 0)
    #expect(talks[0].say(words) == "*1 $3 \u{0}\u{2}\u{2}")
    cluster.beginMove(of: slot, to: 1)
    #expect(talks[0].say(words) == "*1 $3 \u{0}\u{2}\u{2}", "both keys are still there")
    cluster.nodes[0].evict(Array("\(tag):d:0102030405060708".utf8), now: 0)
    #expect(talks[0].say(words) == ":0")
    #expect(cluster.moveKeys(of: slot, count: 1, now: 0) == 0)
    #expect(talks[0].say(words) == "-ASK \(slot) node-1:7001")
  }

  @Test func aReplicaTakesItsMastersPlace() {
    let (tag, slot) = tag()
    talks[0].say("SET \(tag) 1")
    talks[0].now = 1_000_000_000
    talks[0].say("SET \(tag) 2")
    cluster.failOver(to: 3, forgetting: 10, informing: [1], now: 1_000_000_000)
    #expect(talks[3].say("GET \(tag)") == "$1 1", "the last write is gone")
    #expect(talks[1].say("GET \(tag)") == "-MOVED \(slot) node-3:7003")
    #expect(talks[0].say("SET \(tag) 9", "GET \(tag)") == "+OK $1 9", "the old master does not know yet")
    cluster.spread()
    #expect(talks[0].say("GET \(tag)") == "-MOVED \(slot) node-3:7003")
    #expect(talks[3].say("GET \(tag)") == "$1 1")
    #expect(talks[0].say("ROLE").hasPrefix("*5 $5 slave $6 node-3 :7003"))
    cluster.failOver(to: 0, forgetting: 0, now: 2_000_000_000)
    #expect(talks[0].say("GET \(tag)") == "$1 1")
  }

  @Test func aClusterIsDown() {
    let (tag, slot) = tag()
    cluster.isDown = true
    #expect(talks[0].say("GET \(tag)") == "-CLUSTERDOWN The cluster is down")
    cluster.isDown = false
    talks[0].say("SET \(tag) 1")
    cluster.abandon(slot, now: 0)
    #expect(talks[1].say("GET \(tag)") == "-CLUSTERDOWN Hash slot not served")
    #expect(talks[0].say("CLUSTER SLOTS").hasPrefix("*4 *4 :0 :\(slot - 1) "))
    #expect(cluster.nodes[0].keys(now: 0).isEmpty)
  }

  @Test func sentinelsNameThePrimary() {
    let sentinel = SimulatedSentinel([.init(name: "main", host: "redis-1", port: 6379)], password: "s", seed: 1)
    let talk = SimulatedRedisTalk(sentinel)
    let question = "SENTINEL GET-MASTER-ADDR-BY-NAME main"
    #expect(talk.say(question) == "-NOAUTH Authentication required.")
    #expect(talk.say("AUTH s", "CLIENT SETNAME herald", question) == "+OK +OK *2 $7 redis-1 $4 6379")
    #expect(talk.say("SENTINEL get-master-addr-by-name other") == "*-1")
    sentinel.primaries = [.init(name: "main", host: "redis-2", port: 6380)]
    #expect(talk.say(question) == "*2 $7 redis-2 $4 6380")
    sentinel.stall()
    #expect(talk.say(question) == "")
    sentinel.resume(now: 1)
    #expect(talk.heard() == "*2 $7 redis-2 $4 6380")
  }
}
