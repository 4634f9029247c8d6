/// The expansion consumer of a worker. It turns jobs for audiences into pages, and stores their progress.
package typealias ExpansionConsumer = QueueConsumer<ExpansionConsumerLoop>
