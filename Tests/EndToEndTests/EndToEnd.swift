import Foundation
import TestSupport
import Testing

/// Both ends over loopback, and the real executable.
///
/// One test at a time: each starts servers and loads them, and two at once would only slow each
/// other down. Nothing sleeps; whatever never happens ends with the time limit.
@Suite("End to end", .serialized, .bounded(.seconds(120)))
enum EndToEnd {}

/// Runs the body so many times, all at once or a few, and returns what came of it, in the order of
/// the numbers.
func concurrently<Value: Sendable>(
    _ count: Int,
    atOnce: Int = .max,
    _ body: @escaping @Sendable (Int) async throws -> Value
) async throws -> [Value] {
    try await withThrowingTaskGroup(of: (Int, Value).self) { group in
        var values: [Int: Value] = [:]
        for number in 0..<count {
            if number >= atOnce, let (number, value) = try await group.next() {
                values[number] = value
            }
            group.addTask { (number, try await body(number)) }
        }
        for try await (number, value) in group { values[number] = value }
        return (0..<count).compactMap { values[$0] }
    }
}

/// Something that did not happen as it must, in words.
struct Unexpected: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
