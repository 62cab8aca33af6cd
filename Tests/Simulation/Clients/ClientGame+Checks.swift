import Foundation
import Sanguine
import SanguineModel
import SanguineTesting

// The invariants to check after each step.
extension ClientGame {
    func check() throws {
        for index in devices.indices { try check(index) }
        if isOnThreads {
            for index in devices.indices { try threads.check(index) }
        }
        for mark in network.backend.doubled {
            throw finding("Exactly once: the backend applied '\(mark)' twice")
        }
    }

    /// Returns everything that the public API of a device shows.
    func view(_ index: Int) -> ClientGameView {
        ClientGameView(devices[index].process, network, size: size)
    }

    /// Checks everything that the public API of a device shows.
    func check(_ index: Int, isLaunched: Bool = false) throws {
        let view = view(index)
        note(view.digest, isQuiet: true)
        if view.person != devices[index].stay.person {
            for place in devices[index].deeds
            where deeds[place].person == devices[index].stay.person && deeds[place].isOfRecords {
                // An acknowledged operation does not wait for the user's return, not even if a lost
                // history acknowledged it.
                let wasDone = !deeds[place].lostIn.isEmpty
                deeds[place].isLeft = deeds[place].isLeft || wasDone || isDone(place)
            }
            devices[index].stay = .init(person: view.person)
        }
        if isLaunched {
            // Values that had not reached the disk are fetched again and then shown as they are. A
            // row whose answer may or may not contain a write has to be fetched first.
            devices[index].stay.seen = devices[index].stay.seen.filter { seen in
                !seen.hasPrefix("row ") && view.marks.contains { seen.hasPrefix("\($0.place): ") }
            }
        }
        try checkSignOut(index)
        // A row that is not shown may return unchanged.
        devices[index].stay.seen = devices[index].stay.seen.filter { seen in
            !seen.hasPrefix("row ") || view.marks.contains { seen.hasPrefix("\($0.place): ") }
        }
        for (place, marks) in view.marks {
            try checkMarks(marks, at: place, of: view.person, index)
        }
        let rows = view.marks.map(\.place).filter { $0.hasPrefix("row ") }
        guard Set(rows).count == rows.count else {
            throw finding("No flicker: device \(index) shows a row twice: \(rows)")
        }
        for place in devices[index].deeds where deeds[place].person == view.person {
            try check(place, in: view, index)
        }
        for id in GameTally.ids { try checkMember(of: id, in: view, index) }
        for (place, marks) in view.marks {
            devices[index].stay.seen.formUnion(marks.map { "\(place): \($0)" })
        }
    }

    private func checkMarks(
        _ marks: [String],
        at place: String,
        of person: Person?,
        _ index: Int
    ) throws {
        if let other = marks.first(where: { mark in
            person.map { !mark.hasPrefix($0.mark) } ?? true
        }) {
            let who = person?.rawValue ?? "nobody"
            throw finding("No leak: device \(index) shows \(who) '\(other)' in \(place)")
        }
        guard Set(marks).count < marks.count else { return }
        throw finding("No flicker: device \(index) shows a mark twice in \(place): \(marks)")
    }

    /// Checks the state of a deed, as far as its own device knows it.
    private func check(
        _ place: Int,
        in view: ClientGameView,
        _ index: Int
    ) throws {
        guard !deeds[place].isUncertain, !deeds[place].isLost else { return }
        if let refused = view.refused[deeds[place].id] {
            guard deeds[place].isPoison else {
                throw finding("'\(deeds[place].mark)' was refused: \(refused.problem.detail)")
            }
            if !deeds[place].isRefused { count(.refusal) }
            deeds[place].isRefused = true
        }
        let deed = deeds[place]
        if deed.isOver {
            for shown in deed.places where view.marks(at: shown)?.contains(deed.mark) == true {
                throw finding("device \(index) shows '\(deed.mark)' in \(shown), which has ended")
            }
            if deed.isRefused, !deed.isDiscarded, view.refused[deed.id] == nil {
                throw finding("Nothing lost: '\(deed.mark)' has left the tray of device \(index)")
            }
            return
        }
        let isPending = view.pending[deed.id] != nil
        if !isPending { deeds[place].isSettled = true }
        if !isPending, !isDone(place) {
            let epoch = devices[index].process.client.recordsEpoch
            if deed.isLeft && !deed.lostIn.isEmpty || epoch.map(deed.lostIn.contains) ?? false {
                // The user has left, or a late answer came from the lost history.
                return lose(place)
            }
            throw finding("Nothing lost: '\(deed.mark)' is neither on device \(index) nor applied")
        }
        if case .dropped(let entry) = deed.kind, view.marks(at: "row \(entry)") != nil {
            throw finding("No flicker: device \(index) shows '\(entry)', which is dropped")
        }
        try checkShown(deed, place, in: view, index, isPending: isPending)
    }

    private func checkShown(
        _ deed: Deed,
        _ place: Int,
        in view: ClientGameView,
        _ index: Int,
        isPending: Bool
    ) throws {
        let stay = devices[index].stay
        for shown in deed.places {
            guard let marks = view.marks(at: shown), !marks.contains(deed.mark) else { continue }
            let isSeen = stay.seen.contains("\(shown): \(deed.mark)")
            let isMissed =
                switch deed.kind {
                case .tally: isSeen || stay.deeds.contains(place)
                case .board: isSeen
                // An applied row may be beyond the rows that are held.
                case .added: isSeen && isPending
                case .marked, .dropped, .set: isSeen
                }
            guard isMissed else { continue }
            throw finding("No flicker: device \(index) no longer shows '\(deed.mark)' in \(shown)")
        }
    }

    /// Checks that the device's member of a tally is the one set last on the device.
    private func checkMember(of id: RecordID, in view: ClientGameView, _ index: Int) throws {
        let writes = devices[index].deeds.filter { place in
            guard case .set(id) = deeds[place].kind else { return false }
            return deeds[place].person == view.person && !deeds[place].isOver
        }
        // After a restore a late copy of a request may set it again. Until the server's tallies
        // arrive, a tally is made by operations, which may be unknown to this version, discarded or
        // replaced.
        guard devices[index].process.client.recordsEpoch != nil,
            let last = writes.last, devices[index].stay.deeds.contains(last),
            writes.allSatisfy({ !deeds[$0].isUncertain && deeds[$0].lostIn.isEmpty })
        else { return }
        let shown = view.members[id]?[index]
        guard shown != deeds[last].mark else { return }
        throw finding(
            """
            No flicker: device \(index) shows \(shown ?? "nothing") in '\(id)', and not \
            '\(deeds[last].mark)'
            """
        )
    }

    /// Whether the server has applied the deed.
    func isDone(_ place: Int) -> Bool {
        if deeds[place].isDone { return true }
        let deed = deeds[place]
        let isDone: Bool
        switch deed.kind {
        case .tally, .set:
            let account = network.account(deed.person)
            let result = account.flatMap { network.authority.result(of: deed.id, account: $0) }
            isDone = result?.status == .applied
            if isDone { count(deed.lostIn.isEmpty ? .record : .sentAgain) }
        case .board, .added, .marked, .dropped:
            isDone = network.backend.count(deed.mark) > 0
            if isDone { count(.board) }
        }
        deeds[place].isDone = isDone
        return isDone
    }

    // MARK: - Files

    /// Checks the files once a sign-out has finished its work on the device.
    private func checkSignOut(_ index: Int) throws {
        guard let leaving = devices[index].leaving else { return }
        if leaving.isOver { devices[index].leaving = nil }
        guard leaving.hasBegun, !devices[index].isFarewellSeen else { return }
        devices[index].isFarewellSeen = true
        if devices[index].process.client.outbox.ofOthers > 0 { count(.leftBehind) }
        try checkFiles(index)
    }

    /// Checks every byte of a device's folder: it contains only the current user's data and the
    /// operations that wait for their owner's return.
    func checkFiles(_ index: Int) throws {
        let device = devices[index]
        let current = device.process.client.accountId.flatMap { network.person($0) }
        let files = try UserGameFiles.contents(of: device.process.folder)
        for other in Person.allCases where other != current {
            let mayWait = device.deeds.map { deeds[$0] }
                .filter { $0.person == other && !$0.isDiscarded && !$0.isSettled }
            let mark = Data(other.mark.utf8)
            for (name, data) in files.sorted(by: { $0.key < $1.key }) {
                if !mayWait.isEmpty, name.contains("/sanguine-outbox") { continue }
                guard data.range(of: mark) != nil else { continue }
                let who = current?.rawValue ?? "nobody"
                throw finding("No leak: \(name) of device \(index) says '\(other.mark)' to \(who)")
            }
        }
    }
}
