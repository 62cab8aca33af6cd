import Foundation
import TestSupport
import Testing

/// Client and server over loopback, and the real executable.
///
/// The tests run one at a time, because each starts servers and loads them. Nothing sleeps, and a
/// wait that never succeeds ends at the time limit.
@Suite("End to end", .serialized, .bounded(.seconds(120)))
enum EndToEnd {}

/// Runs the body the given number of times, all at once or a few at a time, and returns the results
/// in the order of their numbers.
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

/// A description of something unexpected.
struct Unexpected: Error, CustomStringConvertible {
    let description: String

    init(_ description: String) { self.description = description }
}
