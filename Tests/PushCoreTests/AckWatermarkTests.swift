import Testing

@testable import PushCore

@Suite struct AckWatermarkTests {
  let start = Instant(nanoseconds: 0)

  private func due(_ marks: inout AckWatermark) -> UInt64? {
    marks.takeDue(now: start, batch: 1, delayMilliseconds: 1000)
  }

  @Test func acknowledgesUpToTheOldestOpenDelivery() {
    var marks = AckWatermark(capacity: 4)
    for tag in 1...4 as ClosedRange<UInt64> { #expect(marks.delivered(tag) == true) }
    marks.done(2, now: start)
    #expect(due(&marks) == nil)
    marks.done(1, now: start)
    #expect(due(&marks) == 2)
    #expect(due(&marks) == nil)
    marks.done(4, now: start)
    #expect(due(&marks) == nil)
    #expect(marks.openCount == 1)
    marks.done(3, now: start)
    #expect(due(&marks) == 4)
    #expect(marks.openCount == 0)
  }

  @Test func neverNamesARejectedTag() {
    var marks = AckWatermark(capacity: 4)
    for tag in 1...3 as ClosedRange<UInt64> { #expect(marks.delivered(tag) == true) }
    marks.rejected(3, now: start)
    marks.done(1, now: start)
    marks.rejected(2, now: start)
    #expect(due(&marks) == 1)
    #expect(marks.delivered(4) == true)
    marks.rejected(4, now: start)
    #expect(due(&marks) == nil)
  }

  @Test func waitsForABatchOrForTheDelay() {
    var marks = AckWatermark(capacity: 16)
    for tag in 1...3 as ClosedRange<UInt64> {
      #expect(marks.delivered(tag) == true)
      marks.done(tag, now: start)
    }
    #expect(marks.takeDue(now: start, batch: 4, delayMilliseconds: 5) == nil)
    #expect(marks.takeDue(now: start.adding(milliseconds: 4), batch: 4, delayMilliseconds: 5) == nil)
    #expect(marks.takeDue(now: start.adding(milliseconds: 5), batch: 4, delayMilliseconds: 5) == 3)
    #expect(marks.takeDue(now: start, batch: 3, delayMilliseconds: 5) == nil)
  }

  @Test func refusesTagsThatNoBrokerSends() {
    var marks = AckWatermark(capacity: 4)
    #expect(marks.delivered(1) == true)
    #expect(marks.delivered(1) == false)
    #expect(marks.delivered(0) == false)
    #expect(marks.delivered(1 << 40) == false)
    #expect(marks.delivered(2) == true)
  }

  @Test func startsAnewOnANewChannel() {
    var marks = AckWatermark(capacity: 4)
    #expect(marks.delivered(1) == true)
    marks.done(1, now: start)
    marks.reset()
    #expect(due(&marks) == nil)
    #expect(marks.delivered(1) == true)
    marks.done(1, now: start)
    #expect(due(&marks) == 1)
  }

  /// Against a model that keeps a plain list: any order of ends gives the same watermark, beyond the first capacity too.
  @Test(arguments: 0..<40 as Range<UInt64>) func agreesWithAPlainModel(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var marks = AckWatermark(capacity: 8)
    var model: [(isSettled: Bool, isDone: Bool)] = []
    var open: [UInt64] = []
    var acknowledged: UInt64 = 0
    for _ in 0..<2000 {
      if open.count < 300, random.next() % 3 != 0 || open.isEmpty {
        model.append((false, false))
        open.append(UInt64(model.count))
        #expect(marks.delivered(UInt64(model.count)) == true)
      } else {
        let tag = open.remove(at: Int(random.next() % UInt64(open.count)))
        let isDone = random.next() % 5 != 0
        model[Int(tag) - 1] = (true, isDone)
        if isDone { marks.done(tag, now: start) } else { marks.rejected(tag, now: start) }
      }
      let settled = model.prefix { $0.isSettled }
      let expected = settled.lastIndex { $0.isDone }.map { UInt64($0) + 1 } ?? 0
      if let tag = due(&marks) { acknowledged = tag }
      #expect(acknowledged == expected, "seed \(seed)")
    }
  }

  @Test func oneSlowJobDoesNotHoldUpTheOthers() {
    var marks = AckWatermark(capacity: 8)
    for tag in 1...6 as ClosedRange<UInt64> { #expect(marks.delivered(tag) == true) }
    #expect(marks.takeOne(now: start, batch: 1) == nil, "the first look")
    for tag in [2, 3, 5] as [UInt64] { marks.done(tag, now: start) }
    #expect(marks.takeOne(now: start.adding(milliseconds: 99), batch: 3) == nil, "not yet")
    #expect(marks.takeOne(now: start.adding(milliseconds: 100), batch: 4) == nil, "not so few")
    let late = start.adding(milliseconds: 101)
    #expect(marks.takeOne(now: late, batch: 3) == 2)
    #expect(marks.takeOne(now: late, batch: 3) == 3)
    #expect(marks.takeOne(now: late, batch: 3) == 5)
    #expect(marks.takeOne(now: late, batch: 3) == nil)
    #expect(due(&marks) == nil)
    #expect(marks.openCount == 3)
    marks.done(6, now: late)
    marks.done(1, now: late)
    #expect(due(&marks) == nil, "one between them is open")
    #expect(marks.takeOne(now: late, batch: 3) == 1)
    #expect(marks.takeOne(now: late, batch: 3) == 6)
    #expect(marks.takeOne(now: late, batch: 3) == nil)
    marks.done(4, now: late)
    #expect(due(&marks) == 4, "never a tag that was acknowledged alone")
  }

  @Test func whatIsSlowOneAfterTheOtherHoldsUpToo() {
    var marks = AckWatermark(capacity: 64)
    for tag in 1...40 as ClosedRange<UInt64> { #expect(marks.delivered(tag) == true) }
    #expect(marks.takeOne(now: start, batch: 2) == nil)
    for tag in 11...40 as ClosedRange<UInt64> { marks.done(tag, now: start) }
    // The oldest ends every 50 ms, so none delays the others for long.
    marks.done(1, now: start.adding(milliseconds: 50))
    let later = start.adding(milliseconds: 100)
    marks.done(2, now: later)
    var alone: [UInt64] = []
    while let tag = marks.takeOne(now: later, batch: 2) { alone.append(tag) }
    #expect(alone == Array(11...40))
    // While it lasts, nothing waits for the next check.
    #expect(marks.delivered(41) == true)
    #expect(marks.delivered(42) == true)
    for tag in [41, 42] as [UInt64] { marks.done(tag, now: later) }
    #expect(marks.takeOne(now: later, batch: 2) == 41)
    #expect(marks.takeOne(now: later, batch: 2) == 42)
    #expect(marks.takeOne(now: later, batch: 2) == nil)
  }

  /// One delivery stays open for long, beside much traffic: what is kept of the others does not grow, and ends with it.
  @Test func oneThatStaysOpen_costsNoMemory() {
    var marks = AckWatermark(capacity: 64)
    #expect(marks.delivered(1) == true)
    var tag: UInt64 = 1
    var alone = 0
    var range: UInt64 = 0
    // 20,000 each second; one in ten is given back.
    for turn in 0..<5_000 as Range<Int64> {
      let now = start.adding(milliseconds: turn * 2)
      for _ in 0..<40 {
        tag += 1
        _ = marks.delivered(tag)
        if tag % 10 == 0 { marks.rejected(tag, now: now) } else { marks.done(tag, now: now) }
      }
      #expect(due(&marks) == nil)
      while let next = marks.takeOne(now: now, batch: 50) { alone += next > 1 ? 1 : 0 }
      range = max(range, marks.range)
    }
    #expect(range < 8_192, "\(range) of \(tag) are remembered")
    #expect(marks.openCount == 1 && alone > 179_900, "\(alone)")
    marks.done(1, now: start)
    let last = due(&marks)
    #expect(last == tag || last == 1)
    #expect(marks.openCount == 0 && marks.range == 0)
  }

  /// Against a broker that knows what it delivered: each tag is acknowledged once, and none before its job ended.
  @Test(arguments: 0..<60 as Range<UInt64>) func anyOrder_acknowledgesEachOnce(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var marks = AckWatermark(capacity: 8)
    var open: [UInt64] = []
    var unacknowledged: Set<UInt64> = []
    var (tag, milliseconds) = (0 as UInt64, 0 as Int64)
    // Some are open for long, and most are not.
    func end(_ place: Int) {
      let ended = open.remove(at: place)
      let now = start.adding(milliseconds: milliseconds)
      if random.next() % 5 != 0 { return marks.done(ended, now: now) }
      unacknowledged.remove(ended)
      marks.rejected(ended, now: now)
    }
    for step in 0..<6_000 {
      if open.count < 40, step < 5_000, random.next() % 2 == 0 || open.isEmpty {
        tag += 1
        _ = marks.delivered(tag)
        open.append(tag)
        unacknowledged.insert(tag)
      } else if !open.isEmpty {
        let isOldest = step >= 5_000 || random.next() % 300 == 0
        end(isOldest ? 0 : max(0, open.count - 1 - Int(random.next() % 8)))
      }
      milliseconds += Int64(random.next() % 4)
      let now = start.adding(milliseconds: milliseconds)
      if random.next() % 3 == 0, let upTo = marks.takeDue(now: now, batch: 1, delayMilliseconds: 0) {
        #expect(unacknowledged.contains(upTo) && !open.contains { $0 <= upTo }, "seed \(seed): up to \(upTo)")
        unacknowledged = unacknowledged.filter { $0 > upTo }
      }
      while random.next() % 3 != 0, let one = marks.takeOne(now: now, batch: 3) {
        let isUnacknowledged = unacknowledged.remove(one) != nil
        #expect(isUnacknowledged && !open.contains(one), "seed \(seed): \(one)")
      }
    }
    while !open.isEmpty { end(0) }
    if let upTo = due(&marks) { unacknowledged = unacknowledged.filter { $0 > upTo } }
    #expect(unacknowledged.isEmpty && marks.openCount == 0 && marks.range == 0, "seed \(seed): \(unacknowledged)")
  }

  @Test func whatCameSinceTheLastLookIsNotHeldUp() {
    var marks = AckWatermark(capacity: 64)
    var tag: UInt64 = 0
    // Two at a time, answered in the wrong order, 90 ms after they came.
    for round in 0..<20 as Range<Int64> {
      let now = start.adding(milliseconds: round * 90)
      #expect(marks.takeOne(now: now, batch: 1) == nil)
      for open in [tag + 1, tag + 2] { #expect(marks.delivered(open) == true) }
      marks.done(tag + 2, now: now.adding(milliseconds: 1))
      #expect(marks.takeOne(now: now.adding(milliseconds: 89), batch: 1) == nil)
      marks.done(tag + 1, now: now.adding(milliseconds: 89))
      tag += 2
    }
    marks.reset()
    #expect(marks.takeOne(now: start.adding(milliseconds: 10_000), batch: 1) == nil)
  }

  @Test func whatIsTakenInTheMiddleIsNotTakenTwice() {
    var marks = AckWatermark(capacity: 64)
    for tag in 1...6 as ClosedRange<UInt64> { #expect(marks.delivered(tag) == true) }
    #expect(marks.takeOne(now: start, batch: 1) == nil)
    for tag in [2, 3, 5] as [UInt64] { marks.done(tag, now: start) }
    let later = start.adding(milliseconds: 100)
    #expect(marks.takeOne(now: later, batch: 1) == 2)
    // The oldest ends before the rest was taken: the watermark moves past everything behind it.
    marks.done(1, now: later)
    #expect(marks.takeOne(now: later, batch: 1) == 5)
    #expect(marks.takeOne(now: later, batch: 1) == nil)
    #expect(due(&marks) == 3)
  }
}
