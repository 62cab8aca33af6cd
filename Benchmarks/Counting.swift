import Synchronization

/// A counter that several tasks share.
final class Counter: Sendable {
    private let count = Atomic(0)

    var value: Int { count.load(ordering: .relaxed) }

    func add() -> Int { count.add(1, ordering: .relaxed).newValue }
}

/// Steps of one side that the other side awaits.
final class Progress: Sendable {
    private let stream: AsyncStream<Void>
    private let continuation: AsyncStream<Void>.Continuation

    init() { (stream, continuation) = AsyncStream.makeStream() }

    func step() { continuation.yield() }

    func next() async { for await _ in stream { return } }
}
