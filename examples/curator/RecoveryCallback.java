import java.util.List;

/** Is told what a master that has gone has left undone. */
interface RecoveryCallback {
    /** It is known which tasks nobody has. */
    int OK = 0;
    /** It could not be found out; there is no list. */
    int FAILED = -1;

    /**
     * Called once, on the thread that looked.
     *
     * @param rc {@link #OK} or {@link #FAILED}
     * @param tasks names of tasks that wait below /tasks, oldest first; empty if it failed
     */
    void recoveryComplete(int rc, List<String> tasks);
}
