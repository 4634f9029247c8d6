/// One job for an audience, from its expansion into pages until every device has its outcome.
///
/// Steps go through the audience by ordinal. A step fixes its pages before it publishes them, so that a repeated step
/// publishes the same pages. The message of the next step is published after them, so its arrival proves that they are
/// in their queues. Outcomes are counted by page and position, so duplicates do no harm. Whatever is lost, repeated or
/// late: no device is left out, none is in two pages, none counts twice, and the job completes once.
///
/// This models the state in Redis: the scripts there do the same to the same fields, and a test compares them.
package struct ExpansionState: Hashable, Sendable {
  package enum Phase: String, CaseIterable, Sendable {
    /// In progress. May become any other.
    case running
    /// No step fixes pages. May become `running` or `cancelled`.
    case paused
    /// The next step ends the expansion. May become `completed`.
    case cancelled
    /// Its outcome is published. Final.
    case completed
  }

  package struct Page: Hashable, Sendable {
    package var ordinals: [UInt32]
    /// A `PageEnd` letter for each ordinal.
    package var ends: [UInt8]
  }

  package private(set) var phase = Phase.running
  package private(set) var isCancelled = false
  /// What it may have told stays its activity's newest, although it was cancelled.
  package private(set) var isKept = false
  /// Steps whose pages are fixed.
  package private(set) var fixedSteps: UInt32
  /// Steps whose pages are known to be in their queues: those before the latest step that arrived.
  package private(set) var publishedSteps: UInt32
  /// Where the next step starts; nil: the end of the audience.
  package private(set) var ordinal: UInt32?
  package private(set) var pageCount: UInt32
  package private(set) var settledPages: UInt32
  /// Pages that have devices without an outcome.
  package private(set) var openPages: [UInt32: Page] = [:]
  /// The pages of the last fixed step.
  package private(set) var lastStepPages: Range<UInt32>
  package private(set) var summary = AudienceSummary()
  /// Redis lost the outcomes of devices in earlier pages: they count in the summary's `devices` only.
  package private(set) var isPartlyForgotten: Bool

  /// A job's first message came: of its first step, or of a later one if Redis lost the earlier ones.
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

  /// Every device has its outcome, and the job's outcome is not published.
  package var isComplete: Bool { phase != .completed && ordinal == nil && settledPages == pageCount }

  /// The message to publish after the last fixed step's pages; nil: there is no further step.
  package var next: ExpansionCursor? {
    ordinal.map { ExpansionCursor(step: fixedSteps, ordinal: $0, pages: pageCount, devices: summary.devices) }
  }

  // MARK: steps

  package enum Opening: Hashable, Sendable {
    /// A later step came already, or no step was left, or the job is completed: nothing to do.
    case done
    /// The first message of a completed job came again: publish its outcome again.
    case completed
    /// Find devices from this ordinal on.
    case evaluate(from: UInt32)
    /// Its pages are fixed: publish the open ones, then `next`.
    case publish(Range<UInt32>)
    /// Try later: a command paused the job.
    case paused
    /// Try later: there are so many open pages that more would only fill the queues.
    case full
  }

  /// A step's message came, for the first time or redelivered.
  /// - Parameter openMaximum: no step fixes more pages from this number of open pages on.
  package mutating func opened(_ cursor: ExpansionCursor, openMaximum: UInt32) -> Opening {
    guard phase != .completed else { return cursor.step == 0 ? .completed : .done }
    guard cursor.step >= publishedSteps else { return .done }
    // Redis forgot the job and found all devices in fewer steps: this one was published before.
    if cursor.step == fixedSteps, ordinal == nil { return .done }
    publishedSteps = cursor.step
    if cursor.step > fixedSteps { adopt(cursor) }
    guard cursor.step == fixedSteps else { return .publish(lastStepPages) }
    switch phase {
    case .running:
      guard let ordinal else { preconditionFailure("it was looked at before") }
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

  /// Redis is behind the message: it lost its last writes. The outcomes of those pages are lost.
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
  ///   - pages: their ordinals, ascending, none empty; no pages for a dry run.
  ///   - counted: devices of a dry run.
  ///   - next: where the next step starts; nil: this was the last one.
  /// - Returns: false: another step is current, or a command came meanwhile; open the step again.
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

  /// The broker confirmed a step's pages and the message of the next one: a redelivered step has nothing to do.
  package mutating func published(step: UInt32) {
    guard step < fixedSteps else { return }
    publishedSteps = max(publishedSteps, step + 1)
  }

  // MARK: ends

  /// A page, or a copy of a part of it, reported its devices' outcomes. Duplicates and unknown pages change nothing.
  /// - Parameter ordinals: its devices; nil: it does not say. A page that was made anew may have others at these positions: it is not meant.
  package mutating func settled(page: UInt32, position: Int, ends: [UInt8], ordinals: [UInt32]? = nil) {
    guard phase != .completed, var known = openPages[page] else { return }
    if let ordinals, ordinals != Array(known.ordinals.dropFirst(position).prefix(ends.count)) { return }
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

  /// The job's outcome is published.
  package mutating func completed() {
    phase = .completed
    openPages = [:]
  }

  /// Whether its pages may be sent, and other pushes of its state: once it is kept, those are.
  package var standing: AudienceStanding {
    if isKept { return .running }
    return isCancelled ? .cancelled : phase == .paused ? .paused : .running
  }

  package mutating func kept() { isKept = true }

  // MARK: commands

  package enum Command: String, CaseIterable, Sendable {
    case pause, resume, cancel
  }

  /// false: the command can change nothing any more.
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
