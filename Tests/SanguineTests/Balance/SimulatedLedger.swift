import SanguineModel

@testable import Sanguine

/// A minimal authority: holds, charges, failures and grants, each with its number.
struct SimulatedLedger {
    struct Operation {
        let hold: Int64
        let cost: Int64
        let fails: Bool
        /// The number at which the call ended, or `nil` while it runs.
        var end: Int64?
        /// The balance right after the call ended.
        var answer: CallCost?

        /// The amount that the call finally takes from `available`.
        var charge: Int64 { fails ? 0 : cost }
    }

    let start: Int64
    private(set) var available: Int64
    private(set) var held: Int64 = 0
    private(set) var head: Int64 = 0
    private(set) var operations: [String: Operation] = [:]
    private(set) var grants: [(head: Int64, amount: Int64)] = []
    private var granted: Int64 = 0

    init(available: Int64) {
        start = available
        self.available = available
    }

    mutating func hold(_ key: String, _ amount: Int64, cost: Int64, fails: Bool) {
        precondition(operations[key] == nil && cost <= amount)
        head += 1
        available -= amount
        held += amount
        operations[key] = Operation(hold: amount, cost: cost, fails: fails)
    }

    mutating func settle(_ key: String) {
        guard var operation = operations[key], operation.end == nil else { return }
        head += 1
        held -= operation.hold
        available += operation.hold - operation.charge
        operation.end = head
        operation.answer = CallCost(
            charged: operation.charge,
            available: available,
            held: held,
            head: head,
            cached: false
        )
        operations[key] = operation
    }

    mutating func grant(_ amount: Int64) {
        head += 1
        available += amount
        grants.append((head, amount))
        granted += amount
    }

    /// Returns the answer to `GET /v1/balance?operations=` now.
    func balance(naming keys: [String] = []) -> Balance {
        var states: [String: OperationState] = [:]
        for key in keys {
            states[key] =
                switch operations[key] {
                case nil: OperationState(.unknown)
                case let running? where running.end == nil: .init(.running, held: running.hold)
                default: OperationState(.settled)
                }
        }
        return Balance(
            unit: "tokens",
            available: available,
            held: held,
            head: head,
            asOf: Timestamp(millisecondsSince1970: head),
            operations: keys.isEmpty ? nil : states
        )
    }

    /// Returns the balance at that number if none of our own calls had been made.
    func withoutCalls(at number: Int64) -> Int64 {
        var sum = start + granted
        for grant in grants.reversed() {
            guard grant.head > number else { break }
            sum -= grant.amount
        }
        return sum
    }
}
