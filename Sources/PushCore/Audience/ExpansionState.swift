/// One job for an audience while it becomes pages, and until all their devices have their ends.
///
/// Steps go through the audience by ordinal. A step fixes its pages before it publishes them, so that a step that is repeated publishes
/// the same ones; the message of the next step goes out behind them, so that its arrival tells that they are in their queues. Ends are
/// counted by page and position, so that they may be told twice. Whatever is lost, repeated or late: no device is left out, none is in
/// two pages, none counts twice, and the job completes once.
///
/// What Redis keeps is this: its scripts do the same to the same fields, which a test compares.
package struct ExpansionState: Hashable, Sendable {
  package enum Phase: String, CaseIterable, Sendable {
    /// Goes on. May become any other.
    case running
    /// No step fixes pages. May become `running` or `cancelled`.
    case paused
    /// The next step ends the audience. May become `completed`.
    case cancelled
    /// Its outcome is published. Final.
    case completed
  }

  package struct Page: Hashable, Sendable {
    package var ordinals: [UInt32]
    /// A `PageEnd` letter for each of them.
    package var ends: [UInt8]
  }

  package private(set) var phase = Phase.running
  package private(set) var isCancelled = false
  /// Steps whose pages are fixed.
  package private(set) var fixedSteps: UInt32
  /// Steps whose pages are all in their queues, as far as it is known: those before the latest that came.
  package private(set) var publishedSteps: UInt32
  /// Where the step after the fixed ones begins; nil: the audience is at its end.
  package private(set) var ordinal: UInt32?
  package private(set) var pageCount: UInt32
  package private(set) var settledPages: UInt32
  /// Those that have devices without an end.
  package private(set) var openPages: [UInt32: Page] = [:]
  /// Of the last fixed step.
  package private(set) var lastStepPages: Range<UInt32>
  package private(set) var summary = AudienceSummary()
  /// Redis forgot how devices of earlier pages ended: they are in the summary's `devices` alone.
  package private(set) var isPartlyForgotten: Bool

  /// A job's first message came: of its first step, or, where Redis forgot the ones before, of a later one.
  package init(_ cursor: ExpansionCursor) {
    fixedSteps = cursor.step
    publishedSteps = cursor.step
    ordinal = cursor.ordinal
    pageCount = cursor.pages
    settledPages = cursor.pages
    lastStepPages = cursor.pages..<cursor.pages
    summary.devices = cursor.devices
    isPartlyForgotten = cursor.step > 0
  }

  /// Every device has its end, and it is not told yet.
  package var isComplete: Bool { phase != .completed && ordinal == nil && settledPages == pageCount }

  /// The message that goes out behind the last fixed step's pages; nil: there is no step after it.
  package var next: ExpansionCursor? {
    ordinal.map { ExpansionCursor(step: fixedSteps, ordinal: $0, pages: pageCount, devices: summary.devices) }
  }

  // MARK: steps

  package enum Opening: Hashable, Sendable {
    /// A later step came already, or the job is completed: nothing is left to do for this one.
    case done
    /// Find devices from this ordinal on.
    case evaluate(from: UInt32)
    /// Its pages are fixed: publish them, those that are open, and `next` behind them.
    case publish(Range<UInt32>)
    /// Later: a command paused the job.
    case paused
    /// Later: so many pages have no end that more would only fill the queues.
    case full
  }

  /// A step's message came, for the first time or again.
  /// - Parameter openMaximum: pages without an end, from which on no step fixes more.
  package mutating func opened(_ cursor: ExpansionCursor, openMaximum: UInt32) -> Opening {
    guard phase != .completed else { return .done }
    guard cursor.step >= publishedSteps else { return .done }
    publishedSteps = cursor.step
    if cursor.step > fixedSteps { adopt(cursor) }
    guard cursor.step == fixedSteps else { return .publish(lastStepPages) }
    switch phase {
    case .running:
      guard let ordinal else { preconditionFailure("no step follows the last one") }
      return pageCount - settledPages >= openMaximum ? .full : .evaluate(from: ordinal)
    case .paused:
      return .paused
    case .cancelled:
      fix([], counted: 0, next: nil)
      return .publish(lastStepPages)
    case .completed:
      preconditionFailure("it was looked at before")
    }
  }

  /// Redis knows less than the message: it lost its last writes. What became of those pages nobody tells.
  private mutating func adopt(_ cursor: ExpansionCursor) {
    fixedSteps = cursor.step
    ordinal = cursor.ordinal
    if cursor.pages > pageCount {
      settledPages += cursor.pages - pageCount
      pageCount = cursor.pages
    }
    summary.devices = max(summary.devices, cursor.devices)
    lastStepPages = pageCount..<pageCount
    isPartlyForgotten = true
  }

  /// The devices that a step found.
  /// - Parameters:
  ///   - pages: their ordinals, ascending, none of them empty; of a dry run none.
  ///   - counted: devices of a dry run.
  ///   - next: where the next step begins; nil: this was the last one.
  /// - Returns: false: it is not this step's turn any more, or a command came between; it is to be opened again.
  package mutating func found(
    step: UInt32, pages: [[UInt32]], counted: UInt64 = 0, next: UInt32?
  ) -> Bool {
    guard phase == .running, step == fixedSteps else { return false }
    fix(pages, counted: counted, next: next)
    return true
  }

  private mutating func fix(_ pages: [[UInt32]], counted: UInt64, next: UInt32?) {
    let first = pageCount
    for ordinals in pages {
      openPages[pageCount] = Page(ordinals: ordinals, ends: Array(repeating: PageEnd.open, count: ordinals.count))
      pageCount += 1
      summary.devices += UInt64(ordinals.count)
    }
    summary.devices += counted
    lastStepPages = first..<pageCount
    fixedSteps += 1
    ordinal = next
  }

  /// The broker confirmed a step's pages and the message of the next one: whoever comes with the step again has nothing to do.
  package mutating func published(step: UInt32) {
    guard step < fixedSteps else { return }
    publishedSteps = max(publishedSteps, step + 1)
  }

  // MARK: ends

  /// A page, or a copy of a part of it, told how its devices ended. What was told before, and pages that nobody knows, change nothing.
  package mutating func settled(page: UInt32, position: Int, ends: [UInt8]) {
    guard phase != .completed, var known = openPages[page] else { return }
    for (index, letter) in ends.enumerated() {
      let place = position + index
      guard place < known.ends.count, known.ends[place] == PageEnd.open, let end = PageEnd(letter: letter) else {
        continue
      }
      known.ends[place] = letter
      summary[end] += 1
    }
    if known.ends.contains(PageEnd.open) {
      openPages[page] = known
    } else {
      openPages[page] = nil
      settledPages += 1
    }
  }

  /// The broker has its outcome.
  package mutating func completed() {
    phase = .completed
    openPages = [:]
  }

  // MARK: commands

  package enum Command: String, CaseIterable, Sendable {
    case pause, resume, cancel
  }

  /// false: there is nothing left that the command could change.
  package mutating func ordered(_ command: Command) -> Bool {
    switch (command, phase) {
    case (.pause, .running), (.pause, .paused): phase = .paused
    case (.resume, .paused), (.resume, .running): phase = .running
    case (.cancel, .running), (.cancel, .paused), (.cancel, .cancelled):
      phase = .cancelled
      isCancelled = true
    case (.pause, .cancelled), (.resume, .cancelled), (_, .completed): return false
    }
    return true
  }
}
