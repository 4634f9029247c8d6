import PushCore
import TestSupport

@testable import PushStores

/// Random calls of the scripts for devices, activities and the progress of audiences. There are few of each, so that calls collide often,
/// and enough members of a set to make it large, and small again.
struct SimulatedAudienceCalls {
  static let scripts: [(name: String, text: String)] = [
    ("registry find", DeviceScript.find.text), ("registry commit", DeviceScript.commit.text),
    ("registry records", DeviceScript.records.text), ("registry words", DeviceScript.words.text),
    ("registry mark", DeviceScript.mark.text), ("registry marked", DeviceScript.marked.text),
    ("registry count", DeviceScript.count.text), ("registry fingerprints", DeviceScript.fingerprints.text),
    ("registry former", DeviceScript.former.text),
    ("activity read", ActivityScript.read.text), ("activity commit", ActivityScript.commit.text),
    ("activity places", ActivityScript.places.text), ("activity memberships", ActivityScript.memberships.text),
    ("activity forget", ActivityScript.forget.text), ("expansion page", ExpansionScript.page.text),
    ("expansion open", ExpansionScript.open.text), ("expansion fix", ExpansionScript.fix.text),
    ("expansion published", ExpansionScript.published.text), ("expansion settle", ExpansionScript.settle.text),
    ("expansion command", ExpansionScript.command.text), ("expansion finish", ExpansionScript.finish.text),
    ("expansion withdraw", ExpansionScript.withdraw.text),
    ("expansion broadcast", ExpansionScript.repeatBroadcast.text),
    ("expansion early", ExpansionScript.endEarly.text), ("expansion keep", ExpansionScript.keep.text),
    ("expansion expect broadcast", ExpansionScript.expectBroadcast.text),
    ("expansion settle broadcast", ExpansionScript.settleBroadcast.text),
  ]
  private static let texts = Dictionary(uniqueKeysWithValues: scripts.map { ($0.name, Array($0.text.utf8)) })
  private static let tag = "push:{devices:production:com.example.app}:"

  var random: SeededRandom
  /// The server's clock.
  var unixMicroseconds: Int64 = 0
  private var milliseconds: Int { Int(unixMicroseconds / 1000) }
  private var arguments: [[UInt8]] = []
  /// When an ordinal may have been allocated first: the registry's epoch, if it was.
  private var firstFind: Int64?

  init(seed: UInt64) { random = SeededRandom(seed: seed) }

  mutating func next() -> SimulatedRedisCalls.Call {
    arguments = []
    switch below(30) {
    case 0..<4: return find()
    case 4..<14: return commit()
    case 14: return records()
    case 15:
      for _ in 0...below(3) { add(wordNumber(below(5))) }
      return registry("registry words")
    case 16:
      if below(3) == 0 {
        add("u:u-\(below(4))")
        return registry("registry marked")
      }
      if below(2) == 0 {
        add("u:u-\(below(4))", milliseconds / 1000 - below(60), below(3), 1 + below(4))
        return registry("registry former")
      }
      add("secret \(below(2))", "u:u-\(below(4))", milliseconds - below(9_000), 1 + below(60))
      return registry("registry mark")
    case 17:
      let set = below(5)
      add(set, word(set), digits(of: set))
      return registry("registry count")
    case 18..<20: return readActivity()
    case 20..<23: return commitActivity()
    case 23:
      if below(2) == 0 { return forgetMember() }
      let id = below(3)
      add(below(4))
      return call("activity places", [activity(id, "l:0"), activity(id, "l:1")])
    default: return expansion()
    }
  }

  // MARK: - Devices

  private mutating func find() -> SimulatedRedisCalls.Call {
    firstFind = firstFind ?? unixMicroseconds
    add(below(3) == 0 ? 86_400 : below(20))
    for _ in 0...below(4) {
      let (device, tokens) = (below(6), below(3))
      if device == 5 { add("", "") } else { add(device, word(device)) }
      if below(2) == 0 { add("") } else { add(below(130)) }
      // A call without a device requests no ordinal, or one in any case.
      add(device == 5 ? 2 * below(2) : below(3), tokens)
      for _ in 0..<tokens {
        let token = below(5)
        add(token, word(token))
      }
    }
    return registry("registry find")
  }

  private mutating func commit() -> SimulatedRedisCalls.Call {
    let (marks, tokens, words, versions) = (below(3), below(3), below(3), below(2))
    add("secret", marks, tokens, words, versions)
    for index in 0..<marks { add("u:u-\(index + below(2))") }
    for index in 0..<tokens { add("t:\(index)") }
    for _ in 0..<words {
      let number = below(5)
      add(wordNumber(number), "word-\(below(30) == 0 ? 9 : number)")
    }
    for _ in 0..<versions { add("18.\(below(3))") }
    let count = 1 + below(20)
    add(count)
    for _ in 0..<count { change(marks, tokens) }
    let first = below(5)
    for set in first..<first + below(4) { change(set: set % 5, count) }
    return registry("registry commit")
  }

  private mutating func change(_ marks: Int, _ tokens: Int) {
    let (forgotten, guards) = (marks == 0 ? 0 : below(6) / 5, below(8) / 7)
    let (claims, givenUp) = (tokens == 0 ? 0 : below(8) / 7, below(12) / 11)
    let (records, marked, former) = (below(3) / 2, below(12) / 11, below(12) / 11)
    add(forgotten, claims, guards, records, marked, givenUp, former, milliseconds - below(20_000), "d:d-\(below(2))")
    for _ in 0..<forgotten {
      add(1 + below(marks), milliseconds - below(9_000), below(4) == 0 ? -1 : milliseconds - below(9_000))
    }
    for _ in 0..<claims { add(1 + below(tokens)) }
    for _ in 0..<guards {
      let set = below(6)
      add(set, word(set))
      add(below(2) == 0 ? [] : ordinal(below(130)))
    }
    for _ in 0..<records {
      let number = below(130)
      add(number / 64, number % 64, ["", "A", "BB"][below(3)], ["", "A", "BB"][below(3)])
    }
    for _ in 0..<marked { add("d:d-\(below(3))", milliseconds - below(9_000), 1 + below(60)) }
    for _ in 0..<givenUp {
      add("t:\(below(3))", milliseconds - below(9_000), 1 + below(60), "d:d-\(below(2))")
    }
    for _ in 0..<former { add("u:u-\(below(3))", "\(below(130)):\(milliseconds)", 1 + below(60)) }
  }

  /// For a while, more members enter than leave, then the other way round.
  private mutating func change(set: Int, _ changes: Int) {
    add(set, word(set), digits(of: set))
    let chunks = below(5) == 0 ? [0, 1] : [0]
    add(chunks.count)
    for chunk in chunks {
      let grows = unixMicroseconds / 100_000_000 % 2 == 0
      var packed: [UInt8] = []
      for _ in 0..<1 + below(set == 0 ? 3 : 120) {
        let place = below(set == 0 ? 6 : 700)
        let enters = (below(8) == 0) != grows
        packed += [UInt8(1 + below(changes)), enters ? 1 : 0, UInt8(place & 255), UInt8(place >> 8)]
      }
      add(chunk, packed)
    }
  }

  private mutating func records() -> SimulatedRedisCalls.Call {
    var packed: [UInt8] = []
    for _ in 0..<below(7) { packed += ordinal(below(130)) }
    add(packed)
    if below(3) == 0 { return registry("registry fingerprints") }
    add(["", "7", "\(firstFind ?? 0)"][below(3)])
    return registry("registry records")
  }

  private func word(_ set: Int) -> [UInt8] { [UInt8(set), 0, 10, 13, 255, 42, 1, 2] }
  private func digits(of set: Int) -> String { "02012aff0d0a000\(set)" }
  private func wordNumber(_ number: Int) -> [UInt8] { [UInt8(number), 13, 10, 7] }
  private func ordinal(_ number: Int) -> [UInt8] { [UInt8(number), 0, 0, 0] }

  private func registry(_ name: String) -> SimulatedRedisCalls.Call {
    call(name, [Self.tag, Self.tag + "next"].map { Array($0.utf8) })
  }

  // MARK: - Activities

  private func activity(_ id: Int, _ kind: String) -> [UInt8] { Array("\(Self.tag)a:\(kind):ride-\(id)".utf8) }

  private mutating func readActivity() -> SimulatedRedisCalls.Call {
    let id = below(3)
    for _ in 0...below(4) {
      let key = 1 + below(3)
      add(key, key == 1 ? ["s", "j", "c"][below(3)] : "m\(below(4))")
    }
    return call("activity read", [activity(id, "h"), activity(id, "l:0"), activity(id, "r:0")])
  }

  private mutating func commitActivity() -> SimulatedRedisCalls.Call {
    let id = below(3)
    let now = milliseconds
    add("ride-\(id)", below(3) == 0 ? "\(now - below(30_000))" : "", now - 20_000, now - 500 + below(60_000))
    let (joined, left) = (below(3), below(2))
    add(joined, left)
    let chunks = below(3)
    add(chunks)
    for _ in 0..<chunks { add(below(12)) }
    let compared = 1 + below(2)
    add(compared)
    for index in 0..<compared {
      add(index == 0 ? 3 : 4 + below(2), index == 0 ? "s" : "m\(below(4))")
      // Most values are unchanged since the read.
      add(["", "x", "y"][below(3)], ["", "x", "y"][below(3)])
    }
    for _ in 0..<below(3) { add(3, ["j", "c", "b"][below(3)], "text \(below(9))") }
    return call(
      "activity commit",
      [
        Array("\(Self.tag)a:index".utf8), activity(id, "c"), activity(id, "h"), activity(id, "l:0"),
        activity(id, "r:0"),
      ] + (0..<joined + left).map { _ in membership() })
  }

  private mutating func membership() -> [UInt8] { Array("\(Self.tag)a:d:\(below(4))".utf8) }

  private mutating func forgetMember() -> SimulatedRedisCalls.Call {
    if below(2) == 0 {
      add(1 + below(3), below(3))
      return call("activity memberships", [membership(), membership()])
    }
    let id = below(3)
    add("m\(below(4))", "ride-\(id)")
    return call("activity forget", [membership(), activity(id, "l:0"), activity(id, "r:0")])
  }

  // MARK: - Audiences

  private mutating func expansion() -> SimulatedRedisCalls.Call {
    let id = below(6)
    func key(_ name: String) -> [UInt8] { Array("push:{job:job-\(id)}:\(name)".utf8) }
    let (state, body, pages, ordinals) = (key("state"), key("body"), key("pages"), key("ordinals"))
    let life = 5 + below(200)
    switch below(18) {
    case 0..<3:
      let step = below(4)
      add(step, step * 10, step * 2, step * 6, 2 + below(6), milliseconds, life)
      add("com.example.app", below(20) == 0 ? "sandbox" : "production", "class", "bulk", "dry", below(2))
      add("{\"id\":\"job-\(id)\"}")
      return call("expansion open", [state, body])
    case 3..<6:
      add(below(4), below(2) == 0 ? "" : "\(below(90))", below(3), 100, milliseconds, life)
      for _ in 0..<below(4) {
        add(1 + below(3), ["0:4,5,6", "1:4,5,6", "f0:4,5,7", "cAbC12==:0:4,5,6", "4,5,6"][below(5)])
        add(["", "AAAAABAAAAACAAAAAD", "AAAAABAAAAACAAAAAE"][below(3)])
      }
      return call("expansion fix", [state, pages, ordinals])
    case 6:
      add(below(4))
      return call("expansion published", [state])
    case 7..<10:
      add(below(6), below(3), ["a", "-", "u", "s", "a-", "aa", "-u", "aus", "---"][below(9)], milliseconds, life)
      add(["", "0:4,5,6", "0:4", "0:4,5", "0:5", "0:6", "1:4", "0:", "1:4,5,6"][below(9)])
      add(["", "AAAAABAAAAACAAAAAD", "AAAAAC", "AAAAAB"][below(4)])
      return call("expansion settle", [state, pages, ordinals])
    case 12:
      add("superseded \(below(3))", milliseconds, life, "com.example.app", "production")
      return call("expansion withdraw", [state])
    case 13 where below(2) == 0:
      add(below(6), life)
      return call("expansion page", [state, pages, ordinals, body])
    case 13: return call("expansion broadcast", [state])
    case 14 where below(3) == 0:
      add(["state", "end"][below(2)])
      return call("expansion keep", [state])
    case 14:
      add("the filter \(below(3))")
      return call("expansion early", [state])
    case 15: return call("expansion expect broadcast", [state])
    case 16...17:
      add(["a", "-", "t", "r"][below(4)], ["", "BadChannelId"][below(2)], milliseconds, life)
      return call("expansion settle broadcast", [state])
    case 10:
      add(["pause", "resume", "cancel", "resume", "resume"][below(5)])
      return call("expansion command", [state])
    default:
      add(life, milliseconds)
      return call("expansion finish", [state, body, pages, ordinals])
    }
  }

  // MARK: - Parts

  private func call(_ name: String, _ keys: [[UInt8]]) -> SimulatedRedisCalls.Call {
    let head = [Array("EVAL".utf8), Self.texts[name] ?? [], Array("\(keys.count)".utf8)]
    return (name, head + keys + arguments)
  }

  private mutating func add(_ values: Any...) {
    for value in values {
      if let bytes = value as? [UInt8] { arguments.append(bytes) } else { arguments.append(Array("\(value)".utf8)) }
    }
  }

  private mutating func below(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
}
