import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Error classes", .bounded)
struct ErrorClassTests {
    /// Every case except problems, with its class.
    ///
    /// ``next(after:)`` does not compile if it lacks a case.
    private static let classes: [(SanguineError, ErrorClass)] = {
        var classes: [(SanguineError, ErrorClass)] = []
        var row = next(after: nil)
        while let found = row {
            classes.append(found)
            row = next(after: found.0)
        }
        return classes
    }()

    private static func next(after error: SanguineError?) -> (SanguineError, ErrorClass)? {
        switch error {
        case nil, .problem: (.transport(.timedOut), .retryable)
        case .transport(.timedOut): (.transport(.offline("x")), .retryable)
        case .transport(.offline): (.transport(.interrupted("x")), .retryable)
        case .transport(.interrupted): (.transport(.cancelled), .cancelled)
        case .transport(.cancelled): (.transport(.bodyTooLarge(limitBytes: 1)), .defect)
        case .transport(.bodyTooLarge): (.transport(.invalid("x")), .defect)
        case .transport(.invalid): (.transport(.intercepted("x")), .retryable)
        case .transport(.intercepted): (.timedOut(after: .transport(.timedOut)), .retryable)
        case .timedOut: (.decoding("x"), .defect)
        case .decoding: (.store(.closed), .defect)
        case .store: (.outcomeUnknown(operation: "x"), .refused)
        case .outcomeUnknown: (.balanceUnsettled, .refused)
        case .balanceUnsettled: (.userChanged, .cancelled)
        case .userChanged: (.cancelled, .cancelled)
        case .cancelled: (.closed, .cancelled)
        case .closed: (.notConfigured("x"), .defect)
        case .notConfigured: (.invalidDeclaration("x"), .defect)
        case .invalidDeclaration: (.signInRefused("x"), .defect)
        case .signInRefused: (.queueFull(limit: 1), .refused)
        case .queueFull: (.outboxFull(limit: 1), .refused)
        case .outboxFull: (.conflictingQuery(name: "x"), .defect)
        case .conflictingQuery: (.rangeTooLong(limit: 1), .refused)
        case .rangeTooLong: (.queryFailed(ClosureFailure("x")), .defect)
        case .queryFailed: nil
        }
    }

    private static func problem(_ status: Int, _ code: ProblemCode? = nil) -> SanguineError {
        var problem = Problem(code ?? ProblemCode(rawValue: "http_\(status)"), "Look it up.")
        problem.status = status
        return .problem(problem)
    }

    @Test func `each error without a status has the class of its case`() {
        for (error, errorClass) in Self.classes {
            #expect(error.errorClass == errorClass, "\(error.code)")
        }
        #expect(Set(Self.classes.map(\.0.code)).count == Self.classes.count - 2)
    }

    @Test func `the guide contains each code with its class`() throws {
        let guide = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/Sanguine/Sanguine.docc/Errors-and-What-to-Do.md")
            .standardizedFileURL
        let text = try String(contentsOf: guide, encoding: .utf8)
        for (error, errorClass) in Self.classes {
            let row = "| `\(error.code)` | `\(errorClass.rawValue)` |"
            #expect(text.contains(row), "\(row)")
        }
    }

    @Test func `the table has exactly the codes that the source declares`() throws {
        let tests = URL(filePath: #filePath).deletingLastPathComponent()
        let source = tests.appending(
            path: "../../../Sources/SanguineModel/Wire/ProblemCode.swift"
        ).standardizedFileURL
        let declared = try String(contentsOf: source, encoding: .utf8)
            .matches(of: #/= Self\(rawValue: "([a-z_]+)"\)/#)
            .map { ProblemCode(rawValue: String($0.1)) }

        #expect(Set(declared) == Set(ErrorTable.codes.keys))
        for code in declared {
            #expect(
                SanguineError.problem(Problem(code, "x")).errorClass == ErrorTable.codes[code],
                "\(code.rawValue)"
            )
        }
    }

    @Test func `each status row applies to a backend without codes`() {
        for (status, errorClass) in ErrorTable.statuses {
            #expect(Self.problem(status).errorClass == errorClass, "\(status)")
        }
    }

    @Test(arguments: [
        (302, ErrorClass.retryable), (402, .refused), (403, .refused), (409, .refused),
        (422, .refused), (451, .refused), (501, .defect), (507, .defect), (599, .defect),
        (0, .defect), (199, .defect),
    ])
    func `a status without a row has the class of its hundred`(status: Int, errorClass: ErrorClass)
    {
        #expect(Self.problem(status).errorClass == errorClass)
    }

    @Test func `a code applies only with its own status`() {
        #expect(Self.problem(404, .internalFault).errorClass == .gone)
        #expect(Self.problem(500, .internalFault).errorClass == .retryable)
    }

    @Test func `codes and their statuses agree on whether a read is retried`() {
        for (code, errorClass) in ErrorTable.codes where code != .operationInProgress {
            #expect(
                Self.problem(code.meaning.status).errorClass.isWorthAnotherRead
                    == errorClass.isWorthAnotherRead,
                "\(code.rawValue)"
            )
        }
    }

    @Test func `each class is used by some error`() {
        let used = Set(Self.classes.map(\.1)).union(ErrorTable.codes.values)
            .union(ErrorTable.statuses.values)
        #expect(used == Set(ErrorClass.allCases))
    }
}
