import Foundation
import SanguineAuthority
import Synchronization

/// Examines a data folder that was just opened.
///
/// Opening waits for it for at most ``SQLiteStorageOptions/openingCheck``; the rest is read in the
/// background, on a separate thread.
///
/// Mutable state: `outcome`, guarded by its mutex, set once.
final class OpeningCheck: Sendable {
    private let examiner: Examiner
    private let outcome = Mutex<DataCheck?>(nil)
    private let end = DispatchGroup()

    /// Starts the examination, and waits for it as long as the options allow.
    init(
        of folder: DataFolder,
        options: SQLiteStorageOptions,
        schema: Schema,
        into damage: FoundDamage
    ) {
        examiner = Examiner(of: folder, options: options, schema: schema)
        end.enter()
        let thread = Thread(named: "sqlite.check") { [self] in
            let outcome = examine(acceptsLostFiles: options.acceptsLostFiles, damage)
            self.outcome.withLock { $0 = outcome }
            end.leave()
        }
        thread.start()
        let limit = options.openingCheck / .seconds(1)
        let bound = DispatchTime.now() + limit  // tidy: allow hidden-clock: the bound of a wait.
        _ = end.wait(timeout: bound)
    }

    /// The progress of the examination.
    var progress: DataCheck { outcome.withLock { $0 } ?? .running(examiner.part.rawValue) }

    /// Makes the examination end soon.
    func stopSoon() { examiner.stop() }

    /// Ends the examination, and returns when its connection is closed.
    func stop() async {
        examiner.stop()
        await withCheckedContinuation { caller in
            end.notify(queue: .global()) { caller.resume() }
        }
    }

    private func examine(acceptsLostFiles: Bool, _ damage: FoundDamage) -> DataCheck {
        do throws(StorageError) {
            var report = try examiner.run()
            if acceptsLostFiles { report.files = DataExamination.Files() }
            guard let first = report.damage.first else { return .done }
            damage.record(first)
            return .done
        } catch {
            damage.record(error)
            return .failed("\(error)")
        }
    }
}
