import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

@Suite("Classes of errors", .bounded)
struct ErrorClassTests {
    /// One of each case; the switch below says when one is missing.
    private static let cases: [SanguineError] = [
        .transport(.timedOut), .transport(.cancelled), .transport(.offline("x")),
        .transport(.interrupted("x")), .transport(.bodyTooLarge(limitBytes: 1)),
        .transport(.invalid("x")), .decoding("x"), .store(.closed),
        .outcomeUnknown(operation: "x"), .balanceUnsettled, .userChanged, .cancelled, .closed,
        .notConfigured("x"), .queueFull(limit: 1), .conflictingQuery(name: "x"), .queryFailed("x"),
    ]

    private static func problem(_ status: Int, _ code: ProblemCode? = nil) -> SanguineError {
        var problem = Problem(code ?? ProblemCode(rawValue: "http_\(status)"), "Look it up.")
        problem.status = status
        return .problem(problem)
    }

    @Test func `each row of the errors without a status is that of one of them`() throws {
        #expect(Set(Self.cases.map(\.code)) == Set(ErrorTable.cases.keys))
        for error in Self.cases {
            #expect(error.errorClass == ErrorTable.cases[error.code], "\(error.code)")
        }
    }

    @Test func `each code that the source declares has a row, and no other has`() throws {
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

    @Test func `each row of a status holds for a backend that knows no codes`() {
        for (status, errorClass) in ErrorTable.statuses {
            #expect(Self.problem(status).errorClass == errorClass, "\(status)")
        }
    }

    @Test(arguments: [
        (302, ErrorClass.defect), (402, .refused), (403, .refused), (409, .refused),
        (422, .refused), (451, .refused), (501, .defect), (507, .defect), (599, .defect),
        (0, .defect), (199, .defect),
    ])
    func `a status without a row is classed by its hundred`(status: Int, errorClass: ErrorClass) {
        #expect(Self.problem(status).errorClass == errorClass)
    }

    @Test func `a code counts only beside its own status`() {
        #expect(Self.problem(404, .internalFault).errorClass == .gone)
        #expect(Self.problem(500, .internalFault).errorClass == .retryable)
    }

    @Test func `codes and their statuses agree on what is worth another read`() {
        for (code, errorClass) in ErrorTable.codes where code != .operationInProgress {
            #expect(
                Self.problem(code.meaning.status).errorClass.isWorthAnotherRead
                    == errorClass.isWorthAnotherRead,
                "\(code.rawValue)"
            )
        }
    }

    @Test func `each class is that of some error`() {
        let used = Set(ErrorTable.cases.values).union(ErrorTable.codes.values)
            .union(ErrorTable.statuses.values)
        #expect(used == Set(ErrorClass.allCases))
    }
}
