package import SanguineModel

/// The state of the bucket of files, for `sanguine doctor`.
package enum BucketExamination: Hashable, Sendable {
    /// Whether the bucket keeps deleted and replaced objects.
    package enum Versioning: Hashable, Sendable {
        case off
        case on
        /// It cannot be asked for, for the given reason.
        case unknown(String)
    }

    /// The bucket can be listed, and objects can be written, read and deleted.
    case usable(bucket: String, Versioning)
    /// The bucket cannot be used; the reason contains the remedy.
    case unusable(String)
}

extension BucketExamination {
    /// Examines the bucket; `nil` if files are not in one.
    ///
    /// It writes an object and deletes it. The running server is not affected.
    package init?(
        _ settings: BlobSetting,
        clock: any WallClock = SystemWallClock(),
        delay: any Clock<Duration> = ContinuousClock()
    ) async {
        let store: S3BlobStore
        do throws(SettingsError) {
            guard let bucket = try settings.bucketStore(clock: clock, delay: delay) else {
                return nil
            }
            store = bucket
        } catch {
            self = .unusable(error.description)
            return
        }
        self = await BucketExamination(store)
        await store.close()
    }

    init(_ store: S3BlobStore) async {
        do throws(S3Failure) {
            try await store.check(key: S3BlobStore.doctorKey)
            self = .usable(bucket: "\(store.location)", await store.versioning())
        } catch {
            self = .unusable(error.reason(at: store.location))
        }
    }
}

extension S3BlobStore {
    /// The key of the object that an examination writes, while a server may check the bucket too.
    static let doctorKey = "sanguine-doctor"

    /// Returns whether the bucket keeps versions of objects.
    fileprivate func versioning() async -> BucketExamination.Versioning {
        do throws(S3Failure) {
            switch try await versioningStatus() {
            case "Enabled": return .on
            // A bucket without the setting has no status, and a suspended one keeps no new
            // versions.
            case nil, "Suspended": return .off
            case .some: return .unknown("the answer has an unknown status")
            }
        } catch {
            return .unknown(error.reason(at: location))
        }
    }
}
