import TestSupport
import Testing

/// Both ends over loopback, and the real executable.
///
/// One test at a time: each starts servers and loads them, and two at once would only slow each
/// other down. Nothing sleeps; whatever never happens ends with the time limit.
@Suite("End to end", .serialized, .bounded(.seconds(120)))
enum EndToEnd {}

/// Runs the body so many times at once, and returns what came of it, in the order of the numbers.
func concurrently<Value: Sendable>(
    _ count: Int,
    _ body: @escaping @Sendable (Int) async throws -> Value
) async throws -> [Value] {
    try await withThrowingTaskGroup(of: (Int, Value).self) { group in
        for number in 0..<count {
            group.addTask { (number, try await body(number)) }
        }
        var values: [Int: Value] = [:]
        for try await (number, value) in group { values[number] = value }
        return (0..<count).compactMap { values[$0] }
    }
}

/// Something that did not happen as it must, in words.
struct Unexpected: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
