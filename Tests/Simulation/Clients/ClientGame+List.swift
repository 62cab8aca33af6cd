import Foundation
import Sanguine
import SanguineModel
import SanguineTesting

// Events of a game that is only about the list.
extension ClientGame {
    /// Plays an event on the list or on the app that shows it.
    func listEvent(_ index: Int) throws {
        let (client, list) = (devices[index].process.client, ListQuery.entries(size))
        let kind = Int.random(in: 0..<12, using: &random)
        note("device \(index) and its list: \(kind)")
        switch kind {
        case 0..<3: Task { _ = try? await client.refresh(list) }
        case 3..<6: Task { try? await client.loadNext(list) }
        case 6: Task { _ = try? await client.value(of: list) }
        case 7: client.invalidate(list)
        case 8: try reopen(index)
        case 9: changeListElsewhere()
        default: perform(index)
        }
    }

    /// Inserts or removes a row as another device of the person would.
    private func changeListElsewhere() {
        let person: Person = chance(3) ? .bob : .ada
        let (mark, isLast) = ("\(person.mark)else-\(step)", chance(2))
        let gone =
            chance(2) ? network.backend.shelf(person).entries.randomElement(using: &random) : nil
        network.backend.change(person) { shelf in
            if let gone {
                shelf.drop(gone.id)
            } else {
                shelf.insert(GameEntry(id: mark), isLast: isLast)
            }
        }
    }

    /// Returns a row to mark, and the lane in which the mark waits for the row itself.
    ///
    /// - Returns: `nil` if the game is not only about the list, or no row is shown.
    func anyEntry(of person: Person, _ index: Int) -> (id: String, lane: String)? {
        let view = view(index)
        let shown = view.marks.compactMap { mark -> String? in
            mark.place.hasPrefix("row ") ? String(mark.place.dropFirst(4)) : nil
        }
        guard isOnList, let id = shown.randomElement(using: &random) else { return nil }
        guard !GameEntry.isFixed(id), let operation = operation(adding: id, view) else {
            return (id, chance(3) ? "lane of \(id)" : "lane 0")
        }
        return (id, operation.lane)
    }

    private func operation(adding id: String, _ view: ClientGameView) -> Outbox.Operation? {
        deeds.first { $0.mark == id }.flatMap { view.pending[$0.id] }
    }
}
