import PushCore
import Testing

/// One audience as a trace: an event a line, and what it must lead to.
@Suite struct ExpansionStateTests {
  private let maximum: UInt32 = 200

  private func letters(_ text: String) -> [UInt8] { Array(text.utf8) }

  @Test func anAudienceOfTwoSteps() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .evaluate(from: 0))
    #expect(state.found(step: 0, pages: [[1, 2], [5]], next: 6) == true)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .publish(0..<2))
    #expect(state.next == ExpansionCursor(step: 1, ordinal: 6, pages: 2, devices: 3))
    state.settled(page: 0, position: 0, ends: letters("aa"))
    #expect(!state.isComplete)
    #expect(
      state.opened(ExpansionCursor(step: 1, ordinal: 6, pages: 2, devices: 3), openMaximum: maximum)
        == .evaluate(from: 6))
    #expect(state.found(step: 1, pages: [[8]], next: nil) == true)
    #expect(state.next == nil)
    state.settled(page: 1, position: 0, ends: letters("u"))
    #expect(!state.isComplete)
    state.settled(page: 2, position: 0, ends: letters("s"))
    #expect(state.isComplete)
    #expect(state.summary.devices == 4)
    #expect(state.summary[.outcome(.accepted)] == 2)
    #expect(state.summary[.outcome(.unregistered)] == 1)
    #expect(state.summary[.skipped] == 1)
    state.completed()
    #expect(!state.isComplete)
    #expect(state.opened(ExpansionCursor(step: 1), openMaximum: maximum) == .done)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .completed)
  }

  @Test func anAudienceOfNobodyIsComplete() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .evaluate(from: 0))
    #expect(state.found(step: 0, pages: [], next: nil) == true)
    #expect(state.isComplete)
    #expect(state.summary.devices == 0)
  }

  @Test func aDryRunOnlyCounts() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [], counted: 65_280, next: 65_280) == true)
    #expect(!state.isComplete)
    #expect(state.found(step: 1, pages: [], counted: 3, next: nil) == true)
    #expect(state.isComplete)
    #expect(state.summary.devices == 65_283)
  }

  @Test func aStepThatIsRepeatedPublishesTheSamePages() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1], [2]], next: 3) == true)
    #expect(state.found(step: 0, pages: [[1, 2]], next: 3) == false, "another worker found other devices meanwhile")
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .publish(0..<2))
    #expect(state.openPages[0]?.ordinals == [1])
    state.published(step: 0)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .done)
  }

  @Test func aLaterStepProvesTheOneBefore() throws {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1]], next: 3) == true)
    let next = try #require(state.next)
    #expect(state.opened(next, openMaximum: maximum) == .evaluate(from: 3))
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .done)
  }

  @Test func pagesWithoutAnEndHoldTheNextStep() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1, 2], [3]], next: 4) == true)
    let next = ExpansionCursor(step: 1, ordinal: 4, pages: 2, devices: 3)
    #expect(state.opened(next, openMaximum: 2) == .full)
    state.settled(page: 0, position: 0, ends: letters("-a"))
    #expect(state.opened(next, openMaximum: 2) == .full)
    state.settled(page: 0, position: 0, ends: letters("r-"))
    #expect(state.opened(next, openMaximum: 2) == .evaluate(from: 4))
  }

  @Test func endsCountOnce() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1, 2, 3]], next: nil) == true)
    state.settled(page: 0, position: 0, ends: letters("a--"))
    state.settled(page: 0, position: 0, ends: letters("aa-"))
    state.settled(page: 0, position: 0, ends: letters("r"))
    state.settled(page: 0, position: 2, ends: letters("faaa"))
    state.settled(page: 0, position: 2, ends: letters("f"))
    state.settled(page: 7, position: 0, ends: letters("a"))
    #expect(state.isComplete)
    #expect(state.summary[.outcome(.accepted)] == 2)
    #expect(state.summary[.outcome(.failed)] == 1)
    #expect(state.summary.settled == 3)
  }

  // MARK: commands

  @Test func whatIsPausedWaits() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.ordered(.pause) == true)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .paused)
    #expect(state.found(step: 0, pages: [[1]], next: nil) == false, "it was found before the command")
    #expect(state.ordered(.resume) == true)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .evaluate(from: 0))
  }

  /// Pages that are fixed are as good as published: the command came too late for them.
  @Test func aPauseStopsNoFixedPage() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1]], next: 5) == true)
    #expect(state.ordered(.pause) == true)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .publish(0..<1))
    #expect(
      state.opened(ExpansionCursor(step: 1, ordinal: 5, pages: 1, devices: 1), openMaximum: maximum) == .paused)
  }

  @Test func whatIsCancelledEndsWithItsPages() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1]], next: 5) == true)
    #expect(state.ordered(.cancel) == true)
    #expect(state.ordered(.resume) == false)
    let next = ExpansionCursor(step: 1, ordinal: 5, pages: 1, devices: 1)
    #expect(state.opened(next, openMaximum: maximum) == .publish(1..<1))
    #expect(state.next == nil)
    #expect(!state.isComplete)
    state.settled(page: 0, position: 0, ends: letters("a"))
    #expect(state.isComplete && state.isCancelled)
    state.completed()
    for command in ExpansionState.Command.allCases { #expect(state.ordered(command) == false) }
  }

  // MARK: what Redis forgot

  @Test func aStepGoesOnWhereRedisForgotTheOnesBefore() {
    let cursor = ExpansionCursor(step: 3, ordinal: 900, pages: 40, devices: 20_000)
    var state = ExpansionState(cursor)
    #expect(state.isPartlyForgotten)
    #expect(state.opened(cursor, openMaximum: maximum) == .evaluate(from: 900))
    state.settled(page: 39, position: 0, ends: letters("a"))
    #expect(state.found(step: 3, pages: [[901]], next: nil) == true)
    state.settled(page: 40, position: 0, ends: letters("a"))
    #expect(state.isComplete)
    #expect(state.summary.devices == 20_001)
  }

  @Test func aStepGoesOnWhereRedisLostItsLastWrites() {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1]], next: 5) == true)
    let cursor = ExpansionCursor(step: 2, ordinal: 90, pages: 4, devices: 9)
    #expect(state.opened(cursor, openMaximum: maximum) == .evaluate(from: 90))
    #expect(state.found(step: 2, pages: [], next: nil) == true)
    #expect(!state.isComplete, "the first page is known, and has no end")
    state.settled(page: 0, position: 0, ends: letters("a"))
    #expect(state.isComplete && state.isPartlyForgotten)
  }

  /// Redis forgot the job, whose first step now finds all devices; before that its second step was published.
  @Test(arguments: ExpansionState.Command.allCases + [nil]) func aStepThatNobodyNeedsAnyMoreDoesNothing(
    command: ExpansionState.Command?
  ) {
    var state = ExpansionState(ExpansionCursor())
    #expect(state.found(step: 0, pages: [[1], [2]], next: nil) == true)
    if let command { _ = state.ordered(command) }
    #expect(state.opened(ExpansionCursor(step: 1, ordinal: 8, pages: 4, devices: 5), openMaximum: maximum) == .done)
    #expect(state.opened(ExpansionCursor(), openMaximum: maximum) == .publish(0..<2), "its pages may not be in a queue")
    for page in [0, 1] as [UInt32] { state.settled(page: page, position: 0, ends: letters("a")) }
    #expect(state.isComplete && state.summary.devices == 2)
  }

  // MARK: cursors

  @Test func aCursorIsReadAsItWasWritten() {
    let cursor = ExpansionCursor(step: 1 << 30, ordinal: .max, pages: 1 << 30, devices: 1 << 53)
    #expect(ExpansionCursor(cursor.text) == cursor)
  }

  @Test(arguments: ["", "1:2:3", "1:2:3:4:5", "1:2:3:x", "-1:0:0:0", "4294967296:0:0:0", "1:2::4"])
  func whatIsNoCursorIsNotTaken(_ text: String) { #expect(ExpansionCursor(text) == nil) }

  // MARK: anything may come twice, late and in any order

  @Test(arguments: 0..<400) func noGapNoRepeatExactCounts(_ seed: UInt64) {
    var world = ExpansionWorld(seed: seed)
    world.play()
    #expect(world.violations.isEmpty, "seed \(seed): \(world.violations)")
  }
}

/// Workers that die at any point of a step, messages that come again, and lanes that settle in pieces. It looks only at what was
/// published and what was told.
private struct ExpansionWorld {
  var violations: [String] = []
  private var random: SeededRandom
  private let audience: [UInt32]
  private var state: ExpansionState?
  private var steps = [ExpansionCursor()]
  /// Copies of pages in queues.
  private var copies: [(page: UInt32, ordinals: [UInt32])] = []
  private var settlements: [(page: UInt32, position: Int, ends: [UInt8])] = []
  /// By page, what was published first.
  private var published: [UInt32: [UInt32]] = [:]
  /// By ordinal: it ends the same however often it is asked.
  private let ends: [UInt32: UInt8]
  private var completions = 0

  init(seed: UInt64) {
    random = SeededRandom(seed: seed)
    var ordinal: UInt32 = 0
    var audience: [UInt32] = []
    for _ in 0..<(random.next() % 60) {
      ordinal += 1 + UInt32(random.next() % 5)
      audience.append(ordinal)
    }
    self.audience = audience
    var ends: [UInt32: UInt8] = [:]
    for ordinal in audience { ends[ordinal] = PageEnd.all[Int(random.next() % UInt64(PageEnd.all.count))].letter }
    self.ends = ends
  }

  private mutating func pick(_ bound: Int) -> Int { Int(random.next() % UInt64(bound)) }
  private mutating func chance(_ percent: Int) -> Bool { pick(100) < percent }

  mutating func play() {
    var rounds = 0
    while !(steps.isEmpty && copies.isEmpty && settlements.isEmpty) {
      rounds += 1
      guard rounds < 20_000 else { return violations.append("it does not come to rest") }
      if chance(3), state?.phase == .running { _ = state?.ordered(.pause) }
      if chance(20), state?.phase == .paused { _ = state?.ordered(.resume) }
      switch pick(3) {
      case 0 where !steps.isEmpty: step(pick(steps.count))
      case 1 where !copies.isEmpty: send(pick(copies.count))
      case 2 where !settlements.isEmpty: settle(pick(settlements.count))
      default: break
      }
    }
    finish()
  }

  /// One delivery of a step; where its worker dies it stays in its queue.
  private mutating func step(_ index: Int) {
    let cursor = steps[index]
    if state == nil { state = ExpansionState(cursor) }
    guard var state else { return }
    defer { self.state = state }
    while true {
      switch state.opened(cursor, openMaximum: 4) {
      case .done, .completed:
        if !chance(10) { steps.remove(at: index) }
        return
      case .paused, .full:
        return
      case .evaluate(let from):
        if chance(15) { return }
        let found = audience.filter { $0 >= from }.prefix(9)
        let pages = stride(from: 0, to: found.count, by: 3).map { Array(found[$0..<min($0 + 3, found.count)]) }
        let next = found.last.flatMap { last in last == audience.last ? nil : last + 1 }
        _ = state.found(step: cursor.step, pages: pages, next: next)
      case .publish(let pages):
        for page in pages {
          if chance(10) { return }
          guard let open = state.openPages[page] else { continue }
          publish(page, open.ordinals)
        }
        if chance(10) { return }
        if let next = state.next { steps.append(next) }
        if chance(10) { return }
        state.published(step: cursor.step)
        complete(&state)
        if !chance(10) { steps.remove(at: index) }
        return
      }
    }
  }

  private mutating func publish(_ page: UInt32, _ ordinals: [UInt32]) {
    if let before = published[page], before != ordinals { violations.append("page \(page) was published as another") }
    published[page] = ordinals
    copies.append((page, ordinals))
  }

  /// A lane has a copy: some of its devices end, the others come back alone.
  private mutating func send(_ index: Int) {
    let (page, ordinals) = copies[index]
    if !chance(15) { copies.remove(at: index) }
    let letters = ordinals.map { ends[$0] ?? PageEnd.open }
    let isWhole = chance(60)
    let first = letters.map { isWhole || chance(50) ? $0 : PageEnd.open }
    settlements.append((page, 0, first))
    for (position, letter) in first.enumerated() where letter == PageEnd.open {
      settlements.append((page, position, [letters[position]]))
    }
  }

  private mutating func settle(_ index: Int) {
    let settlement = settlements[index]
    guard var state else { return violations.append("a page of nobody was published") }
    state.settled(page: settlement.page, position: settlement.position, ends: settlement.ends)
    complete(&state)
    self.state = state
    if !chance(15) { settlements.remove(at: index) }
  }

  private mutating func complete(_ state: inout ExpansionState) {
    guard state.isComplete else { return }
    if chance(20) { return }
    completions += 1
    state.completed()
  }

  private mutating func finish() {
    guard var state else { return violations.append("nothing was done") }
    // Who died before it told the end is followed by another: its message stayed in its queue.
    complete(&state)
    complete(&state)
    while state.isComplete { complete(&state) }
    if completions != 1 { violations.append("completed \(completions) times") }
    let sent = published.values.flatMap { $0 }
    if sent.sorted() != audience { violations.append("sent to \(sent.count) of \(audience.count)") }
    if state.summary.devices != UInt64(audience.count) { violations.append("counted \(state.summary.devices)") }
    for end in PageEnd.all {
      let count = UInt64(ends.values.count { $0 == end.letter })
      if state.summary[end] != count { violations.append("\(end.name): \(state.summary[end]), not \(count)") }
    }
  }
}
