import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// Errors that a query's closure throws when the app uses its own network stack.
@Suite("Errors from a query's closure", .bounded)
struct ClosureErrorTests {
    struct Locked: Error, CustomStringConvertible, Equatable {
        let description = "the song is locked"
    }

    struct Explained: LocalizedError {
        var errorDescription: String? { "Buy the song first" }
    }

    /// Network errors in the forms in which apps receive them.
    static let network: [any Error] = [
        URLError(.timedOut), URLError(.notConnectedToInternet), URLError(.networkConnectionLost),
        URLError(.cannotConnectToHost), URLError(.cancelled), URLError(.badServerResponse),
        POSIXError(.ECONNREFUSED), POSIXError(.ECONNRESET), POSIXError(.ETIMEDOUT),
        POSIXError(.EPIPE), POSIXError(.ENETUNREACH), POSIXError(.ECANCELED),
        TransportError.interrupted("test"), TransportError.offline("test"),
        TransportError.timedOut, TransportError.cancelled, CancellationError(),
        NSError(domain: NSURLErrorDomain, code: URLError.Code.timedOut.rawValue),
        NSError(domain: NSPOSIXErrorDomain, code: Int(POSIXErrorCode.ECONNRESET.rawValue)),
        NSError(
            domain: "app",
            code: 1,
            userInfo: [NSUnderlyingErrorKey: URLError(.networkConnectionLost)]
        ),
    ]

    /// Returns the value of a query whose closure throws the error once, and the number of calls.
    private static func value(
        throwingOnce error: any Error
    ) async throws -> (result: Result<Profile, SanguineError>, calls: Int) {
        let test = try TestClient { $0.delay = ContinuousClock() }
        defer { test.client.close() }
        let calls = Mutex(0)
        let soon = RetrySchedule(attempts: 3, base: .milliseconds(1))
        let policy = Policy.fresh(for: .minutes(5)).retry(soon)
        let query = ValueQuery<Profile>("own", policy: policy) { _ in
            let isFirst = calls.withLock { calls in
                calls += 1
                return calls == 1
            }
            if isFirst { throw error }
            return Profile(name: "Ada")
        }
        let result = try await within(.seconds(30), "the value") {
            () -> Result<Profile, SanguineError> in
            do throws(SanguineError) {
                return .success(try await test.client.value(of: query))
            } catch {
                return .failure(error)
            }
        }
        return (result, calls.withLock { $0 })
    }

    @Test(arguments: network.indices)
    func `a network error is retried`(place: Int) async throws {
        let (result, calls) = try await Self.value(throwingOnce: Self.network[place])

        #expect(result == .success(Profile(name: "Ada")), "\(Self.network[place])")
        #expect(calls == 2)
    }

    @Test func `an error of the app is not retried and keeps its text`() async throws {
        let (result, calls) = try await Self.value(throwingOnce: Locked())

        #expect(result == .failure(.queryFailed(ClosureFailure("the song is locked"))))
        #expect(calls == 1)
    }

    struct Classified: ClassifiedError, Equatable {
        var errorClass: ErrorClass
        var retryAfter: Duration?
    }

    @Test(arguments: ErrorClass.allCases)
    func `an error of the app can declare its class`(errorClass: ErrorClass) async throws {
        let error = Classified(errorClass: errorClass)
        let (result, calls) = try await Self.value(throwingOnce: error)

        guard !errorClass.isWorthAnotherRead else {
            #expect(result == .success(Profile(name: "Ada")))
            #expect(calls == 2)
            return
        }
        #expect(result == .failure(.queryFailed(ClosureFailure(error))))
        #expect(SanguineError(error).errorClass == errorClass)
        #expect(calls == 1)
    }

    @Test func `an error of the app can declare a retry time`() {
        let error = Classified(errorClass: .waits, retryAfter: .seconds(7))

        #expect(SanguineError(error).retryAfter == .seconds(7))
    }

    @Test func `an error of the app is kept`() async throws {
        let error = SanguineError(Locked())

        #expect(error.underlying as? Locked == Locked())
        #expect(SanguineError.timedOut(after: error).underlying as? Locked == Locked())
        #expect(error == SanguineError.queryFailed(ClosureFailure("the song is locked")))
    }

    @Test func `a localized error description is kept`() {
        #expect(SanguineError(Explained()).description.contains("Buy the song first"))
    }

    @Test(arguments: [
        URLError(.badURL) as any Error, URLError(.unsupportedURL), URLError(.fileDoesNotExist),
        POSIXError(.ENOENT), POSIXError(.EACCES), NSError(domain: NSCocoaErrorDomain, code: 4),
    ])
    func `an error that a retry cannot fix is not a network error`(error: any Error) {
        #expect(SanguineError(error).errorClass == .defect)
    }

    @Test func `a refusal thrown by a closure is used unchanged`() {
        let error = SanguineError(Refusal(.notOwner, "Ask its owner."))

        #expect(error == .problem(Refusal(.notOwner, "Ask its owner.").problem))
    }

    @Test func `an error that no closure threw does not mention a closure`() {
        let error = SanguineError.queryFailed(ClosureFailure("its values left the memory"))

        #expect(!error.description.contains("closure threw"))
        #expect(error.description == "The query failed: its values left the memory.")
    }
}
