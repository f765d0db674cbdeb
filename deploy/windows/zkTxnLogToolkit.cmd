@echo off
REM Shows, repairs or cuts a transaction log: zebu log.

setlocal
call "%~dp0zkEnv.cmd"
if errorlevel 1 exit /b 1
%ZEBU% log %*
