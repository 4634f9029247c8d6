/// The registration consumer of a worker. It stores what comes by the queue `push.registrations`.
package typealias RegistrationConsumer = QueueConsumer<RegistrationConsumerLoop>
