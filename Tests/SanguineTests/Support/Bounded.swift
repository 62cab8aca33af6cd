import Dispatch
import Foundation

/// Waited longer than a test may.
struct Overdue: Error, CustomStringConvertible {
    let description: String
}

/// Runs the body for 30 seconds at most.
///
/// - Parameters:
///   - what: What the body waits for, as the failure says it.
///   - body: What is waited for.
/// - Returns: What the body returns.
/// - Throws: What the body throws, or ``Overdue``.
func bounded<Value: Sendable>(
    _ what: String,
    _ body: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let (outcomes, outcome) = AsyncThrowingStream.makeStream(of: Value.self)
    let work = Task {
        DispatchQueue.global().asyncAfter(deadline: .now() + 30) {
            outcome.finish(throwing: Overdue(description: "Waited in vain for \(what)."))
        }
        do {
            outcome.yield(try await body())
        } catch {
            outcome.finish(throwing: error)
        }
    }
    defer { work.cancel() }
    for try await value in outcomes { return value }
    throw CancellationError()
}
