import Sanguine
import SanguineModel
import SanguineTesting

/// The balance as a view shows it, with its history.
final class Screen: Sendable {
    struct Shown: Hashable, Sendable, CustomStringConvertible {
        let available: Int64
        let held: Int64

        var description: String { "\(available) and \(held) held" }
    }

    /// The shown values, newest last, without consecutive duplicates.
    let shown = Watched<[Shown]>([])
    private let task: Task<Void, Never>

    var numbers: [Int64] {
        shown.value.map(\.available).reduce(into: []) { numbers, number in
            if numbers.last != number { numbers.append(number) }
        }
    }

    init(_ client: SanguineClient) {
        let updates = client.updates(of: .balance)
        task = Task { [shown] in
            for await state in updates {
                guard let balance = state.value else { continue }
                let now = Shown(available: balance.available, held: balance.held)
                shown.update { shown in
                    if shown.last != now { shown.append(now) }
                }
            }
        }
    }

    deinit { task.cancel() }

    /// Waits until the given values are shown.
    func shows(_ available: Int64, held: Int64) async throws {
        let wanted = Shown(available: available, held: held)
        try await shown.when { $0.last == wanted }
    }
}
