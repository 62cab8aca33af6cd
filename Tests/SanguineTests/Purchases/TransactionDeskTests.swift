import SanguineModel
import TestSupport
import Testing

@testable import Sanguine

/// The decisions about a store's transactions.
@Suite("Decisions about a store's transactions", .bounded)
struct TransactionDeskTests {
    private let answer = PurchaseAnswer(
        balance: Balance(
            unit: "tokens",
            available: 200,
            held: 0,
            head: 5,
            asOf: Timestamp(millisecondsSince1970: 0)
        ),
        plan: .free,
        transactionId: "1",
        credited: 100
    )

    private func key(_ id: String, isRevoked: Bool = false) -> TransactionDesk.Key {
        .init(StoreTransaction(id: id, signed: id, isRevoked: isRevoked) {})
    }

    private func receives(
        _ id: String,
        isRevoked: Bool = false,
        _ desk: inout TransactionDesk
    ) -> Bool {
        desk.received(key(id, isRevoked: isRevoked))
    }

    @Test func `a transaction in progress is not handed over again`() {
        var desk = TransactionDesk()
        #expect(receives("1", &desk))
        #expect(!receives("1", &desk))
        #expect(receives("2", &desk))
    }

    @Test func `a transaction is finished once the server has it`() {
        var desk = TransactionDesk()
        _ = desk.received(key("1"))
        #expect(desk.ended(key("1"), .success(answer)) == .finish(.credited(answer)))
        #expect(!receives("1", &desk), "It was finished.")
    }

    @Test func `the refund of a finished transaction is handed over`() {
        var desk = TransactionDesk()
        _ = desk.received(key("1"))
        _ = desk.ended(key("1"), .success(answer))
        #expect(receives("1", isRevoked: true, &desk))
    }

    @Test func `a refund that was reversed is handed over`() {
        var desk = TransactionDesk()
        for isRevoked in [false, true] {
            _ = desk.received(key("1", isRevoked: isRevoked))
            _ = desk.ended(key("1", isRevoked: isRevoked), .success(answer))
        }
        #expect(!receives("1", isRevoked: true, &desk))
        #expect(receives("1", &desk))
    }

    @Test func `a transaction that another account has is finished and reported`() {
        var desk = TransactionDesk()
        _ = desk.received(key("1"))
        let taken = SanguineError.problem(Problem(.purchaseTaken, "Sign in there."))
        #expect(desk.ended(key("1"), .failure(taken)) == .finish(.taken(transaction: "1")))
    }

    @Test(arguments: [ProblemCode.purchaseInvalid, .purchaseForeign, .notFound])
    func `a refused transaction stays unfinished and waits for the next launch`(
        code: ProblemCode
    ) {
        var desk = TransactionDesk()
        _ = desk.received(key("1"))
        let problem = Problem(code, "No.")
        let action = desk.ended(key("1"), .failure(.problem(problem)))
        #expect(action == .keep(.refused(transaction: "1", problem)))
        #expect(!receives("1", &desk))
    }

    @Test(arguments: [SanguineError.userChanged, .closed, .cancelled])
    func `a transaction of a user who has left is neither finished nor reported`(
        error: SanguineError
    ) {
        var desk = TransactionDesk()
        _ = desk.received(key("1"))
        #expect(desk.ended(key("1"), .failure(error)) == .leave)
        #expect(desk.inProgress == 0)
    }

    @Test func `a transaction that could not be stored is tried again a few times`() {
        var desk = TransactionDesk()
        _ = desk.received(key("1"))
        let full = SanguineError.outboxFull(limit: 1)
        for count in 1..<TransactionDesk.attempts {
            #expect(desk.ended(key("1"), .failure(full)) == .retry(afterFailures: count))
        }
        let last = desk.ended(key("1"), .failure(full))
        #expect(last == .keep(.postponed(transaction: "1", full)))
    }

    @Test func `transactions past the limit are left to the next launch`() {
        var desk = TransactionDesk()
        for number in 0..<TransactionDesk.limit { #expect(receives("\(number)", &desk)) }
        #expect(!receives("more", &desk))
        _ = desk.ended(key("0"), .success(answer))
        #expect(receives("more", &desk))
    }
}
