import PushCore
import PushIO
import PushLane

/// Jobs of activities: each is taken by its activity before it becomes pages.
extension ExpansionRunner {
  /// The longest wait for a revision's time that a message is held for; behind that it waits in a queue.
  private static var heldMillisecondsMaximum: Int64 { 2_000 }

  /// What the activity made of the job comes as a message of its own. Where that was opened, nothing is left to do for this one.
  func lookWhetherTaken(_ delivery: ExpansionDelivery, _ step: Step) {
    store.progress(step.id) { [self] result in
      guard !delivery.isGone else { return }
      switch result {
      case .failure(let failure):
        waitForRedis(delivery, failure.text)
        end(step.id)
      case .success(.some):
        delivery.finish()
        end(step.id)
      case .success(nil):
        guard step.isLeave, let audience = step.audience else { return take(delivery, step, leaving: []) }
        reader.read(
          audience, in: step.scope, from: 0, maximum: Limits.targetsMaximum, unixMilliseconds: delivery.firstSeen
        ) { [self] part in
          guard !delivery.isGone else { return }
          switch part {
          case .failed(let text), .refused(let text):
            waitForRedis(delivery, text)
            end(step.id)
          case .found(let ordinals, _, _): take(delivery, step, leaving: ordinals)
          }
        }
      }
    }
  }

  private func take(_ delivery: ExpansionDelivery, _ step: Step, leaving: [UInt32]) {
    var job = PushJob()
    guard (try? read(delivery, into: &job)) != nil else { preconditionFailure("the step was read before") }
    let id = ActivityID(String(decoding: job.bytes[job.activity.range], as: UTF8.self))
    taker.take(job, in: step.scope, leaving: leaving) { [self] in taken($0, delivery, step, id) }
  }

  private func taken(
    _ taken: ActivityTaker.Taken, _ delivery: ExpansionDelivery, _ step: Step, _ id: ActivityID?
  ) {
    guard !delivery.isGone else { return }
    switch taken {
    case .goesOut(let body):
      delivery.publish([Publish(target: .step(step.cursor), body: body, metadata: delivery.metadata)]) { [self] in
        delivery.finish()
        end(step.id)
      }
    case .waits(let number, let milliseconds):
      guard let id, milliseconds <= ExpansionRunner.heldMillisecondsMaximum else {
        wait(delivery, seconds: Topology.expansionDelaysSeconds[0])
        return end(step.id)
      }
      loop.schedule(afterMilliseconds: milliseconds) { [weak self] in
        guard let self, !delivery.isGone else { return }
        taker.begin(id, in: step.scope, number: number) { [self] in self.taken($0, delivery, step, id) }
      }
    case .superseded(let number):
      overtake(delivery, number)
      end(step.id)
    case .refused(let error):
      var job = PushJob()
      _ = try? read(delivery, into: &job)
      refuseJob(delivery, job, error.detail, id: nil)
      end(step.id)
    case .failed(let text):
      waitForRedis(delivery, text)
      end(step.id)
    }
  }

  /// A newer job came before this one was sent to anybody.
  private func overtake(_ delivery: ExpansionDelivery, _ number: UInt32) {
    var job = PushJob()
    _ = try? read(delivery, into: &job)
    job.revision = number
    var record = OutcomeRecord(
      outcome: .throttled, attempts: 0, enqueuedAt: delivery.metadata.enqueuedAt, receivedAt: delivery.firstSeen,
      sentAt: nil, completedAt: loop.now.unixMilliseconds)
    record.isSuppressed = true
    delivery.publish([outcome(record, job, delivery.metadata)]) { delivery.finish() }
  }
}
