import PushCore

/// Answers that the lane has not taken yet, oldest first.
struct AdmissionAnswers {
  private var answers: [(ticket: Ticket, admission: Admission)] = []
  private var next = 0

  mutating func append(_ ticket: Ticket, _ admission: Admission) {
    answers.append((ticket, admission))
  }

  mutating func take() -> (ticket: Ticket, admission: Admission)? {
    guard next < answers.count else {
      if next > 0 {
        answers.removeAll(keepingCapacity: true)
        next = 0
      }
      return nil
    }
    next += 1
    return answers[next - 1]
  }
}
